// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testkube"
	"github.com/regcred/regcred/kube"
)

func TestGetServiceAccount(t *testing.T) {
	api := startServer(t, testkube.Options{})
	req := addAccountAndPod(api)
	c := newClient(t, api, nodeName, kube.Options{})
	got := must.Get(c.GetServiceAccount(t.Context(), "ci", "builder"))(t)
	want := &regcred.ServiceAccount{
		Namespace: "ci", Name: "builder", UID: req.ServiceAccountUID,
		Annotations: map[string]string{"example.com/role": "reader"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	secrets, err := c.AccountPullSecrets(t.Context(), "ci", "builder")
	if diff := cmp.Diff([]string{"one", "two"}, secrets); err != nil || diff != "" {
		t.Errorf("error %v (-want +got)\n%s", err, diff)
	}
	wantCalls(t, api, "", "", 1)
	if agent := api.Requests()[0].UserAgent; !strings.HasPrefix(agent, "regcred/") {
		t.Errorf("the client calls itself %q", agent)
	}
}

// TestAccountAge verifies that a service account is cached for ten seconds from the start of its
// request, or less if an option says so.
func TestAccountAge(t *testing.T) {
	for _, tt := range []struct {
		name  string
		age   time.Duration
		asked time.Duration // time until the account is requested again
	}{
		{"default", 0, 10 * time.Second},
		{"shorter", time.Second, time.Second},
		{"longer than allowed", time.Minute, 10 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := startPipe(t)
				addAccountAndPod(api)
				c := newClient(t, api, testkube.Admin, kube.Options{MaxAccountAge: tt.age})
				api.Inject(testkube.Fault{Kind: testkube.FaultSlow, Delay: 500 * time.Millisecond})
				mustGet(t, c)
				time.Sleep(tt.asked - 500*time.Millisecond - time.Nanosecond)
				mustGet(t, c)
				wantCalls(t, api, "get", "serviceaccounts", 1)
				time.Sleep(time.Nanosecond)
				mustGet(t, c)
				wantCalls(t, api, "get", "serviceaccounts", 2)
			})
		})
	}
}

func mustGet(t *testing.T, c *kube.Client) *regcred.ServiceAccount {
	t.Helper()
	return must.Get(c.GetServiceAccount(t.Context(), "ci", "builder"))(t)
}

// TestAccountChanges verifies that a changed, recreated or deleted service account is noticed
// within ten seconds, and a new one at once.
func TestAccountChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := startPipe(t)
		c := newClient(t, api, testkube.Admin, kube.Options{})
		_, err := c.GetServiceAccount(t.Context(), "ci", "builder")
		wantError(t, err, `404 Not Found: serviceaccounts "builder" not found`)
		api.AddServiceAccount(testkube.ServiceAccount{Namespace: "ci", Name: "builder", UID: "uid-1"})
		mustGet(t, c)
		api.AddServiceAccount(testkube.ServiceAccount{Namespace: "ci", Name: "builder", UID: "uid-2", Annotations: map[string]string{"a": "b"}})
		time.Sleep(10 * time.Second)
		if got := mustGet(t, c); got.UID != "uid-2" || got.Annotations["a"] != "b" {
			t.Errorf("got %v after ten seconds", got)
		}
		api.Delete("serviceaccounts", "ci", "builder")
		time.Sleep(10 * time.Second)
		_, err = c.GetServiceAccount(t.Context(), "ci", "builder")
		wantError(t, err, "404 Not Found")
	})
}

// TestAccountShared verifies that concurrent callers share one request, and that a caller whose
// context is canceled does not cancel the request.
func TestAccountShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := startPipe(t)
		addAccountAndPod(api)
		c := newClient(t, api, testkube.Admin, kube.Options{})
		api.Inject(testkube.Fault{Kind: testkube.FaultHang})
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 50)
		get := func(ctx context.Context) {
			_, err := c.GetServiceAccount(ctx, "ci", "builder")
			errs <- err
		}
		go get(ctx) // this caller starts the request
		synctest.Wait()
		for range 49 {
			go get(t.Context())
		}
		synctest.Wait()
		cancel()
		wantError(t, <-errs, "context canceled")
		api.ReleaseHanging()
		for range 49 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		wantCalls(t, api, "get", "serviceaccounts", 1)
	})
}

func TestAccountCanceled(t *testing.T) {
	api := startServer(t, testkube.Options{})
	c := newClient(t, api, testkube.Admin, kube.Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the pod is gone"))
	_, err := c.GetServiceAccount(ctx, "ci", "builder")
	wantError(t, err, "get serviceaccounts ci/builder: https://", "the pod is gone")
	wantCalls(t, api, "", "", 0)
}

// unavailableFaults lists faults that make the API server unavailable to the client.
var unavailableFaults = []struct {
	name  string
	spoil func(*testkube.Server)
	says  string
}{
	{"no connection", (*testkube.Server).Stop, "http://testkube: connection refused"},
	{"reset", injectFault(testkube.FaultConnReset), "the connection was closed before the response was complete"},
	{"cut off", injectFault(testkube.FaultTruncate), "the connection was closed before the response was complete"},
	{"hangs", injectFault(testkube.FaultHang), "timed out after 10s"},
	{"too slow", func(s *testkube.Server) {
		s.Inject(testkube.Fault{Kind: testkube.FaultSlow, Delay: 11 * time.Second, Times: testkube.Forever})
	}, "timed out after 10s"},
	{"429", injectFault(testkube.FaultTooManyRequests), "429 Too Many Requests"},
	{"429, later", func(s *testkube.Server) {
		s.Inject(testkube.Fault{Kind: testkube.FaultTooManyRequests, RetryAfter: 30 * time.Second, Times: testkube.Forever})
	}, "retry after 30s"},
	{"429, again and again", func(s *testkube.Server) {
		s.Inject(testkube.Fault{Kind: testkube.FaultTooManyRequests, RetryAfter: time.Second, Times: testkube.Forever})
	}, "429 Too Many Requests"},
	{"500", injectFault(testkube.FaultServerError), "500 Internal Server Error"},
	{"503", injectFault(testkube.FaultUnavailable), "503 Service Unavailable"},
	{"login page", injectFault(testkube.FaultHTMLBody), "the response is not a ServiceAccount"},
	{"other JSON", injectFault(testkube.FaultBadObject), "the response is not a ServiceAccount"},
	{"huge", injectFault(testkube.FaultHugeBody), "the response is longer than 4194304 bytes"},
}

func injectFault(kind testkube.FaultKind) func(*testkube.Server) {
	return func(s *testkube.Server) { s.Inject(testkube.Fault{Kind: kind, Times: testkube.Forever}) }
}

// TestAccountStale verifies that a cached service account is used for an hour while the API server
// is unavailable. A new request is sent every ten seconds.
func TestAccountStale(t *testing.T) {
	for _, tt := range unavailableFaults {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log logBuffer
				api := startPipe(t)
				addAccountAndPod(api)
				c := newClient(t, api, testkube.Admin, kube.Options{Logger: log.newLogger()})
				read := time.Now()
				mustGet(t, c)
				tt.spoil(api)
				time.Sleep(time.Minute)
				mustGet(t, c)
				if log.countLines(tt.says) != 1 || log.countLines("using the service account that was read earlier") != 1 {
					t.Errorf("the log has not once each %q and that it is old:\n%s", tt.says, log.b.String())
				}
				calls := api.CountRequests("get", "serviceaccounts")
				for range 9 {
					mustGet(t, c)
					time.Sleep(time.Second)
				}
				wantCalls(t, api, "get", "serviceaccounts", calls)
				if log.countLines("using the service account that was read earlier") != 10 {
					t.Errorf("the log does not say of each of ten answers that it is old:\n%s", log.b.String())
				}
				time.Sleep(time.Until(read.Add(time.Hour)))
				_, err := c.GetServiceAccount(t.Context(), "ci", "builder")
				if e := wantError(t, err, "get serviceaccounts ci/builder: ", tt.says); !e.IsUnavailable() {
					t.Errorf("%v counts as a response", err)
				}
			})
		})
	}
}

// TestAccountRecovers verifies that the API server is called again within ten seconds after it
// recovers.
func TestAccountRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := startPipe(t)
		addAccountAndPod(api)
		c := newClient(t, api, testkube.Admin, kube.Options{})
		mustGet(t, c)
		api.Stop()
		time.Sleep(time.Minute)
		mustGet(t, c)
		must.Do(t, api.Start())
		api.Delete("serviceaccounts", "ci", "builder")
		time.Sleep(10 * time.Second)
		_, err := c.GetServiceAccount(t.Context(), "ci", "builder")
		wantError(t, err, "404 Not Found")
	})
}

// TestAccountRefused verifies that the cached service account is dropped if the API server rejects
// a request.
func TestAccountRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		kind testkube.FaultKind
		says string
	}{
		{"401", testkube.FaultUnauthorized, "401 Unauthorized"},
		{"403", testkube.FaultForbidden, "403 Forbidden"},
		{"404", testkube.FaultNotFound, "404 Not Found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := startPipe(t)
				addAccountAndPod(api)
				c := newClient(t, api, testkube.Admin, kube.Options{})
				mustGet(t, c)
				api.Inject(testkube.Fault{Kind: tt.kind})
				time.Sleep(10 * time.Second)
				_, err := c.GetServiceAccount(t.Context(), "ci", "builder")
				if e := wantError(t, err, tt.says); e.IsUnavailable() {
					t.Errorf("%v does not count as a response", err)
				}
				api.Stop()
				_, err = c.GetServiceAccount(t.Context(), "ci", "builder")
				wantError(t, err, "connection refused")
			})
		})
	}
}

// TestServerDownAtStart verifies that a call fails immediately if the API server is down and
// nothing is cached.
func TestServerDownAtStart(t *testing.T) {
	api := startServer(t, testkube.Options{})
	c := newClient(t, api, testkube.Admin, kube.Options{})
	api.Stop()
	for name, ask := range clientCalls(c) {
		err := ask(t.Context())
		if e := wantError(t, err, "https://127.0.0.1:", "connection refused"); !e.IsUnavailable() {
			t.Errorf("%s: %v counts as a response", name, err)
		}
	}
}

// clientCalls returns one call of each of the client's methods, keyed by verb and resource.
func clientCalls(c *kube.Client) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"get serviceaccounts": func(ctx context.Context) error {
			_, err := c.GetServiceAccount(ctx, "ci", "builder")
			return err
		},
		"create serviceaccounts/token": func(ctx context.Context) error {
			_, err := c.RequestToken(ctx, regcred.TokenRequest{Namespace: "ci", ServiceAccount: "builder", Audience: "reg.example"})
			return err
		},
		"get pods": func(ctx context.Context) error {
			_, err := c.Pod(ctx, "ci", "web")
			return err
		},
		"get secrets": func(ctx context.Context) error {
			_, err := c.PullSecrets(ctx, "ci", []string{"one"})
			return err
		},
		"create selfsubjectaccessreviews": func(ctx context.Context) error {
			_, _, err := c.Allowed(ctx, kube.Access{Verb: "get", Resource: "pods"})
			return err
		},
		"create selfsubjectreviews": func(ctx context.Context) error {
			_, err := c.WhoAmI(ctx)
			return err
		},
	}
}

// TestNames verifies that no request is sent for a name that would change the path to another
// object.
func TestNames(t *testing.T) {
	api := startServer(t, testkube.Options{})
	api.AddSecret(testkube.Secret{Namespace: "ci", Name: "one"})
	c := newClient(t, api, testkube.Admin, kube.Options{})
	for _, name := range []string{"", ".", "..", "../secrets/one", "..%2fsecrets%2fone", strings.Repeat("x", 254)} {
		for _, at := range [][2]string{{"ci", name}, {name, "builder"}} {
			_, err := c.GetServiceAccount(t.Context(), at[0], at[1])
			wantError(t, err, "is not a valid namespace or name")
			_, err = c.RequestToken(t.Context(), regcred.TokenRequest{Namespace: at[0], ServiceAccount: at[1], Audience: "a"})
			wantError(t, err, "is not a valid namespace or name")
		}
	}
	wantCalls(t, api, "", "", 0)
}

// TestAccountsBounded verifies that the cache of service accounts has a limited size, and that an
// evicted service account is requested again.
func TestAccountsBounded(t *testing.T) {
	api := startServer(t, testkube.Options{})
	c := newClient(t, api, testkube.Admin, kube.Options{})
	const most = 2000
	for i := range most + 1 {
		name := fmt.Sprint("account-", i)
		api.AddServiceAccount(testkube.ServiceAccount{Namespace: "ci", Name: name})
		must.Get(c.GetServiceAccount(t.Context(), "ci", name))(t)
	}
	wantCalls(t, api, "get", "serviceaccounts", most+1)
	for _, name := range []string{fmt.Sprint("account-", most), "account-0"} { // the first is cached, the second was evicted
		must.Get(c.GetServiceAccount(t.Context(), "ci", name))(t)
	}
	wantCalls(t, api, "get", "serviceaccounts", most+2)
}
