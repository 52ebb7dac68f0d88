// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/provider/ecr"
)

// newRedirector starts an HTTPS server that supports HTTP/2 and responds to every request with 307.
func newRedirector(t *testing.T, location func(*http.Request) string) (s *httptest.Server, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	s = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Location", location(r))
		w.WriteHeader(http.StatusTemporaryRedirect)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, asked
}

// caBundleEnv writes the certificate of s to a file and returns the AWS_CA_BUNDLE variable for it.
func caBundleEnv(t *testing.T, s *httptest.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	must.Do(t, os.WriteFile(file, data, 0o600))
	return "AWS_CA_BUNDLE=" + file
}

// TestRedirectsOverTLS verifies that a server that redirects to itself is called only a few times,
// and that another host receives no request. Over HTTP/2, redirects to the same server were once
// followed until the timeout.
func TestRedirectsOverTLS(t *testing.T) {
	container := func(_ *testcloud.AWS, s *httptest.Server) []string {
		return []string{"AWS_CONTAINER_CREDENTIALS_FULL_URI=" + s.URL + "/v2/credentials", "AWS_CONTAINER_AUTHORIZATION_TOKEN=" + canary.TokenSecret}
	}
	metadata := func(_ *testcloud.AWS, s *httptest.Server) []string {
		return []string{"AWS_EC2_METADATA_SERVICE_ENDPOINT=" + s.URL}
	}
	services := func(_ *testcloud.AWS, s *httptest.Server) []string {
		return append(staticKeysEnv(), "AWS_ENDPOINT_URL_ECR="+s.URL, "AWS_ENDPOINT_URL_STS="+s.URL)
	}
	for name, tt := range map[string]struct {
		environ func(*testcloud.AWS, *httptest.Server) []string
		req     *plugin.Request
		most    int64 // maximum number of requests to the server
	}{
		"container": {container, imageRequest(privateHost), 4},
		"metadata":  {metadata, imageRequest(privateHost), 14}, // a token and a role, each redirected three times, three attempts
		"ECR":       {services, imageRequest(privateHost), 1},
		"STS":       {services, withServiceAccountToken(t, imageRequest(privateHost), roleAnnotation(pullRole)), 1},
	} {
		t.Run(name, func(t *testing.T) {
			for _, elsewhere := range []bool{false, true} {
				other, othersAsked := newRedirector(t, func(*http.Request) string { return "/" })
				s, asked := newRedirector(t, func(r *http.Request) string {
					if elsewhere {
						return other.URL + "/stolen"
					}
					return r.URL.Path
				})
				cloud := newCloud(t, caBundleEnv(t, s))
				setEnviron(t, tt.environ(cloud, s)...)
				opts := shortTimeouts()
				opts.Budget = 3 * time.Second
				_, err := getCredentials(t, opts, tt.req)
				if err == nil || !strings.Contains(err.Error(), "redirect") && !strings.Contains(err.Error(), "status 307 Temporary Redirect") {
					t.Errorf("elsewhere %v: got %v", elsewhere, err)
				}
				if got := asked.Load(); got == 0 || got > tt.most {
					t.Errorf("elsewhere %v: the server was called %d times, want at most %d", elsewhere, got, tt.most)
				}
				if got := othersAsked.Load(); got > 0 {
					t.Errorf("the other host was called %d times", got)
				}
			}
		})
	}
}

// TestOnlyHTTP1 verifies that HTTP/1.1 is used with a server that also supports HTTP/2.
func TestOnlyHTTP1(t *testing.T) {
	var protocol atomic.Value
	cloud := newCloud(t, staticKeysEnv()...)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocol.Store(r.Proto)
		cloud.ServeHTTP(w, r)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	setEnviron(t, caBundleEnv(t, s), "AWS_ENDPOINT_URL_ECR="+s.URL)
	checkCredential(t, mustGetCredentials(t, ecr.Options{}, imageRequest(privateHost)), privateHost)
	if got := protocol.Load(); got != "HTTP/1.1" {
		t.Errorf("got %v", got)
	}
}
