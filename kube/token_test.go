// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testkube"
	"github.com/regcred/regcred/kube"
	"github.com/regcred/regcred/plugin"
)

// TestTokenRequest verifies that RequestToken sends the same request as a kubelet.
func TestTokenRequest(t *testing.T) {
	api := startServer(t, testkube.Options{})
	req := addAccountAndPod(api)
	unbound := req
	unbound.PodName, unbound.PodUID = "", ""
	common := testkube.Request{
		Verb: "create", Resource: "serviceaccounts/token", Namespace: "ci", Name: "builder", User: testkube.Admin,
		AccountUID: req.ServiceAccountUID, Audiences: []string{"reg.example"},
	}
	bound := common
	bound.BoundKind, bound.BoundName, bound.BoundUID = "v1/Pod", "web", req.PodUID

	c := newClient(t, api, testkube.Admin, kube.Options{})
	for _, tt := range []struct {
		name string
		req  regcred.TokenRequest
		want testkube.Request
	}{
		{"of a pod", req, bound},
		{"of nobody", unbound, common},
	} {
		t.Run(tt.name, func(t *testing.T) {
			token := mustRequest(t, c, tt.req)
			log := api.Requests()
			got := log[len(log)-1]
			ignore := cmp.Options{cmpopts.IgnoreUnexported(got), cmpopts.IgnoreFields(got, "UserAgent", "Token")}
			if diff := cmp.Diff(tt.want, got, ignore); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if !token.Equal(got.Token) {
				t.Error("that is not the token that was minted")
			}
		})
	}
}

func mustRequest(t *testing.T, c *kube.Client, req regcred.TokenRequest) plugin.Secret {
	t.Helper()
	token := must.Get(c.RequestToken(t.Context(), req))(t)
	if token.IsZero() {
		t.Fatal("the token is empty")
	}
	return token
}

// TestTokenRefresh verifies that a token is refreshed after 80 % of its lifetime or 24 hours, minus
// a jitter of up to ten seconds.
func TestTokenRefresh(t *testing.T) {
	for _, tt := range []struct {
		name       string
		life, used time.Duration
	}{
		{"an hour", time.Hour, 48 * time.Minute},
		{"ten minutes", 10 * time.Minute, 8 * time.Minute},
		{"30 hours", 30 * time.Hour, 24 * time.Hour},
		{"a week", 7 * 24 * time.Hour, 24 * time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := startServer(t, testkube.Options{Pipe: true, TokenLifetime: tt.life})
				req := addAccountAndPod(api)
				c := newClient(t, api, testkube.Admin, kube.Options{})
				asked := time.Now()
				first := mustRequest(t, c, req)
				time.Sleep(tt.used - 11*time.Second)
				if !mustRequest(t, c, req).Equal(first) {
					t.Errorf("replaced after %v", time.Since(asked))
				}
				wantCalls(t, api, "create", "", 1)
				time.Sleep(12 * time.Second)
				if mustRequest(t, c, req).Equal(first) {
					t.Errorf("not replaced after %v", time.Since(asked))
				}
				wantCalls(t, api, "create", "", 2)
			})
		})
	}
}

// TestTokenOutlives verifies that a token is used until it expires if it cannot be refreshed. A new
// token is requested every ten seconds.
func TestTokenOutlives(t *testing.T) {
	for _, tt := range []struct {
		name string
		kind testkube.FaultKind
		says string
	}{
		{"down", testkube.FaultConnReset, "http://testkube: "},
		{"500", testkube.FaultServerError, "500"},
		{"429", testkube.FaultTooManyRequests, "429"},
		{"refused", testkube.FaultForbidden, "403"}, // kubelet: uses the old token even after a 403
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log logBuffer
				api := startPipe(t)
				req := addAccountAndPod(api)
				c := newClient(t, api, testkube.Admin, kube.Options{Logger: log.newLogger()})
				asked := time.Now()
				first := mustRequest(t, c, req)
				fault := api.Inject(testkube.Fault{Kind: tt.kind, Times: testkube.Forever})
				time.Sleep(50 * time.Minute)
				for range 10 {
					if !mustRequest(t, c, req).Equal(first) {
						t.Fatal("there is another token")
					}
				}
				if fault.Hits() != 1 || log.countLines("the old one is still valid") != 1 {
					t.Errorf("asked %d times within a moment:\n%s", fault.Hits(), log.b.String())
				}
				time.Sleep(10 * time.Second)
				mustRequest(t, c, req)
				if fault.Hits() != 2 {
					t.Errorf("asked %d times within ten seconds, want 2", fault.Hits())
				}
				time.Sleep(time.Until(asked.Add(time.Hour)))
				_, err := c.RequestToken(t.Context(), req)
				wantError(t, err, "create serviceaccounts/token ci/builder: ", tt.says)
				fault.Remove()
				if mustRequest(t, c, req).Equal(first) {
					t.Error("the token that has expired is there again")
				}
				canary.AssertAbsent(t, "the log", log.b.String())
			})
		})
	}
}

// TestTokenKey verifies that a cached token is used only for an identical request.
func TestTokenKey(t *testing.T) {
	api := startServer(t, testkube.Options{})
	req := addAccountAndPod(api)
	api.AddServiceAccount(testkube.ServiceAccount{Namespace: "ci", Name: "other", UID: req.ServiceAccountUID})
	api.AddServiceAccount(testkube.ServiceAccount{Namespace: "cd", Name: "builder", UID: req.ServiceAccountUID})
	api.AddPod(testkube.Pod{Namespace: "ci", Name: "web-2", UID: req.PodUID, ServiceAccount: "builder"})
	c := newClient(t, api, testkube.Admin, kube.Options{})
	seen := map[string]string{}
	for _, tt := range []struct {
		name   string
		change func(*regcred.TokenRequest)
	}{
		{"as it is", func(*regcred.TokenRequest) {}},
		{"pod", func(r *regcred.TokenRequest) { r.PodName = "web-2" }},
		{"no pod UID", func(r *regcred.TokenRequest) { r.PodUID = "" }},
		{"no pod", func(r *regcred.TokenRequest) { r.PodName, r.PodUID = "", "" }},
		{"audience", func(r *regcred.TokenRequest) { r.Audience = "reg2.example" }},
		{"no service account UID", func(r *regcred.TokenRequest) { r.ServiceAccountUID = "" }},
		{"service account", func(r *regcred.TokenRequest) { r.ServiceAccount, r.PodName, r.PodUID = "other", "", "" }},
		{"namespace", func(r *regcred.TokenRequest) { r.Namespace, r.PodName, r.PodUID = "cd", "", "" }},
	} {
		r := req
		tt.change(&r)
		token := mustRequest(t, c, r)
		if was, ok := seen[token.Reveal()]; ok {
			t.Errorf("%s: the token of %s", tt.name, was)
		}
		seen[token.Reveal()] = tt.name
		if !mustRequest(t, c, r).Equal(token) {
			t.Errorf("%s: another token for the same request", tt.name)
		}
	}
	wantCalls(t, api, "create", "", len(seen))
}

// TestTokenReuse verifies that a recreated pod or service account does not get the old one's token,
// and that the old one gets no new token.
func TestTokenReuse(t *testing.T) {
	for _, tt := range []struct {
		name  string
		renew func(*testkube.Server, *regcred.TokenRequest)
		says  string
	}{
		{"pod", func(s *testkube.Server, r *regcred.TokenRequest) {
			r.PodUID = s.AddPod(testkube.Pod{Namespace: "ci", Name: "web", UID: "new", ServiceAccount: "builder"})
		}, "409 Conflict: Operation cannot be fulfilled on Pod"},
		{"service account", func(s *testkube.Server, r *regcred.TokenRequest) {
			r.ServiceAccountUID = s.AddServiceAccount(testkube.ServiceAccount{Namespace: "ci", Name: "builder", UID: "new"})
		}, "does not match the UID of the service account (new)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := startPipe(t)
				old := addAccountAndPod(api)
				c := newClient(t, api, testkube.Admin, kube.Options{})
				first := mustRequest(t, c, old)
				renewed := old
				tt.renew(api, &renewed)
				if mustRequest(t, c, renewed).Equal(first) {
					t.Error("the new one gets the token of the old one")
				}
				time.Sleep(time.Hour)
				_, err := c.RequestToken(t.Context(), old)
				wantError(t, err, tt.says)
			})
		})
	}
}

// TestTokenOfDeletedAccount verifies that the cached service account is dropped if a token request
// shows that it was deleted.
func TestTokenOfDeletedAccount(t *testing.T) {
	for _, tt := range []struct {
		name string
		with func(*testkube.Server)
		says string
	}{
		{"deleted", func(s *testkube.Server) { s.Delete("serviceaccounts", "ci", "builder") }, `404 Not Found: serviceaccounts "builder" not found`},
		{"made anew", func(s *testkube.Server) {
			s.AddServiceAccount(testkube.ServiceAccount{Namespace: "ci", Name: "builder", UID: "new"})
		}, "409 Conflict"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			api := startServer(t, testkube.Options{})
			req := addAccountAndPod(api)
			c := newClient(t, api, testkube.Admin, kube.Options{})
			mustGet(t, c)
			tt.with(api)
			_, err := c.RequestToken(t.Context(), req)
			wantError(t, err, tt.says)
			_, _ = c.GetServiceAccount(t.Context(), "ci", "builder")
			wantCalls(t, api, "get", "serviceaccounts", 2)
		})
	}
}

// TestTokenShared verifies that concurrent calls share one token request.
func TestTokenShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := startPipe(t)
		req := addAccountAndPod(api)
		c := newClient(t, api, testkube.Admin, kube.Options{})
		api.Inject(testkube.Fault{Kind: testkube.FaultHang})
		ctx, cancel := context.WithCancel(t.Context())
		type result struct {
			token plugin.Secret
			err   error
		}
		results := make(chan result, 50)
		ask := func(ctx context.Context) {
			token, err := c.RequestToken(ctx, req)
			results <- result{token, err}
		}
		go ask(ctx)
		synctest.Wait()
		for range 49 {
			go ask(t.Context())
		}
		synctest.Wait()
		cancel()
		wantError(t, (<-results).err, "context canceled")
		api.ReleaseHanging()
		first := <-results
		for range 48 {
			if r := <-results; r.err != nil || !r.token.Equal(first.token) {
				t.Errorf("error %v, or another token", r.err)
			}
		}
		wantCalls(t, api, "create", "", 1)
	})
}

// TestTokenWrong verifies that an unexpected token is an error, is not cached, and is not in the
// error.
func TestTokenWrong(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault testkube.Fault
		says  string
	}{
		{"other audience", testkube.Fault{Kind: testkube.FaultReplaceText, Old: `"audiences":["reg.example"]`, New: `"audiences":["other.example"]`},
			`has a token for the audiences ["other.example"], not for "reg.example"`},
		{"another audience too", testkube.Fault{Kind: testkube.FaultReplaceText, Old: `"audiences":["reg.example"]`, New: `"audiences":["reg.example","other.example"]`},
			`has a token for the audiences ["reg.example" "other.example"], not for "reg.example"`},
		{"empty", testkube.Fault{Kind: testkube.FaultReplaceText, Old: `"token":`, New: `"other":`}, "an empty token"},
		{"cut off", testkube.Fault{Kind: testkube.FaultTruncate}, "the connection was closed before the response was complete"},
		{"without an end, which serves once", testkube.Fault{Kind: testkube.FaultReplaceText, Old: `"expirationTimestamp":`, New: `"audiences":`}, ""},
		{"not JSON", testkube.Fault{Kind: testkube.FaultReplaceText, Old: `"token":`, New: `"token"`}, "the response is not a TokenRequest"},
		{"another kind", testkube.Fault{Kind: testkube.FaultReplaceText, Old: `"kind":"TokenRequest"`, New: `"kind":"Pod"`}, "the response is not a TokenRequest"},
		{"login page", testkube.Fault{Kind: testkube.FaultHTMLBody}, "the response is not a TokenRequest"},
		{"huge", testkube.Fault{Kind: testkube.FaultHugeBody}, "the response is longer than 1048576 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			api := startServer(t, testkube.Options{})
			req := addAccountAndPod(api)
			c := newClient(t, api, testkube.Admin, kube.Options{})
			api.Inject(tt.fault)
			if tt.says == "" {
				mustRequest(t, c, req)
			} else if _, err := c.RequestToken(t.Context(), req); err == nil {
				t.Error("there is a token")
			} else {
				wantError(t, err, tt.says)
			}
			mustRequest(t, c, req)
			wantCalls(t, api, "create", "", 2)
		})
	}
}

func TestTokenWithoutAudience(t *testing.T) {
	api := startServer(t, testkube.Options{})
	req := addAccountAndPod(api)
	req.Audience = ""
	_, err := newClient(t, api, testkube.Admin, kube.Options{}).RequestToken(t.Context(), req)
	wantError(t, err, "the token was not requested: without an audience, it would be valid for the API server itself")
	wantCalls(t, api, "", "", 0)
}

// TestTokenExpired verifies that a token that is already expired is returned but not cached, as in
// the kubelet. This happens if the node's clock is far ahead of the API server's.
func TestTokenExpired(t *testing.T) {
	api := startServer(t, testkube.Options{TokenLifetime: -time.Hour})
	req := addAccountAndPod(api)
	c := newClient(t, api, testkube.Admin, kube.Options{})
	first := mustRequest(t, c, req)
	if mustRequest(t, c, req).Equal(first) {
		t.Error("the token is kept")
	}
}
