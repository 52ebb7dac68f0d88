// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testkube"
	"github.com/regcred/regcred/kube"
)

// TestTryToken verifies that TryToken sends the same request as RequestToken, but as a dry run each
// time.
func TestTryToken(t *testing.T) {
	api := startServer(t, testkube.Options{})
	req := addAccountAndPod(api)
	var queries queryLog
	c := connectVia(t, api, &queries)
	for range 2 {
		must.Do(t, c.TryToken(t.Context(), req))
	}
	wantCalls(t, api, "create", "serviceaccounts/token", 2)
	must.Get(c.RequestToken(t.Context(), req))(t)
	wantCalls(t, api, "create", "serviceaccounts/token", 3)
	if diff := cmp.Diff(queryLog{"dryRun=All", "dryRun=All", ""}, queries); diff != "" {
		t.Errorf("queries: -want +got\n%s", diff)
	}

	api.Inject(testkube.Fault{Kind: testkube.FaultForbidden, Resource: "serviceaccounts/token"})
	if e := wantError(t, c.TryToken(t.Context(), req), "create serviceaccounts/token"); e.Code != http.StatusForbidden {
		t.Errorf("code %d, want 403", e.Code)
	}
}

// queryLog records the queries of a client's requests.
type queryLog []string

func connectVia(t *testing.T, api *testkube.Server, log *queryLog) *kube.Client {
	t.Helper()
	cfg := &rest.Config{Host: api.URL(), BearerToken: api.Token(testkube.Admin), TLSClientConfig: rest.TLSClientConfig{CAData: api.CA()}}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			*log = append(*log, r.URL.RawQuery)
			return next.RoundTrip(r)
		})
	})
	return must.Get(kube.New(cfg, kube.Options{}))(t)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
