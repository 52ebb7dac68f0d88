// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testkube"
	"github.com/regcred/regcred/kube"
)

// TestErrors verifies the texts of errors.
func TestErrors(t *testing.T) {
	// says makes the API server reject requests with a message of the Node authorizer or an
	// admission plugin.
	says := func(message string) func(*testkube.Server, *regcred.TokenRequest) {
		return func(s *testkube.Server, _ *regcred.TokenRequest) {
			s.Inject(testkube.Fault{Kind: testkube.FaultForbidden, Message: message})
		}
	}
	for _, tt := range []struct {
		name string
		user string
		with func(*testkube.Server, *regcred.TokenRequest)
		call string // key in calls; "" requests a token for a pod
		want string // HOST stands for the server's address
	}{
		{
			name: "no permission to get a service account", user: "dev", call: "get serviceaccounts",
			want: `get serviceaccounts ci/builder: HOST returned 403 Forbidden: serviceaccounts "builder" is forbidden: User "dev" cannot get resource "serviceaccounts" in API group "" in the namespace "ci": the client needs the verb "get" on the resource "serviceaccounts" in namespace "ci"`,
		},
		{
			name: "no permission to create a token", user: "dev",
			want: `create serviceaccounts/token ci/builder: HOST returned 403 Forbidden: serviceaccounts "builder" is forbidden: User "dev" cannot create resource "serviceaccounts/token" in API group "" in the namespace "ci": the client needs the verb "create" on the resource "serviceaccounts/token" in namespace "ci"`,
		},
		{
			name: "no permission to get a pod", user: "dev", call: "get pods",
			want: `get pods ci/web: HOST returned 403 Forbidden: pods "web" is forbidden: User "dev" cannot get resource "pods" in API group "" in the namespace "ci": the client needs the verb "get" on the resource "pods" in namespace "ci"`,
		},
		{
			name: "no permission to get a secret", user: "dev", call: "get secrets",
			want: `get secrets ci/one: HOST returned 403 Forbidden: secrets "one" is forbidden: User "dev" cannot get resource "secrets" in API group "" in the namespace "ci": the client needs the verb "get" on the resource "secrets" in namespace "ci"`,
		},
		{
			name: "audience", user: nodeName,
			want: `create serviceaccounts/token ci/builder: HOST returned 403 Forbidden: serviceaccounts "builder" is forbidden: audience "reg.example" not found in pod spec volume, system:node:node-1 is not authorized to request tokens for this audience: the client needs the verb "request-serviceaccounts-token-audience" on the resource "reg.example" in namespace "ci"`,
		},
		{
			name: "audience, from 1.37 on", user: nodeName,
			with: says(`serviceaccounts "builder" is forbidden: system:node:node-1 is not authorized to request tokens for audience "reg.example"`),
			want: `create serviceaccounts/token ci/builder: HOST returned 403 Forbidden: serviceaccounts "builder" is forbidden: system:node:node-1 is not authorized to request tokens for audience "reg.example": the client needs the verb "request-serviceaccounts-token-audience" on the resource "reg.example" in namespace "ci"`,
		},
		{
			name: "service account of another node", user: "system:node:node-2", call: "get serviceaccounts",
			with: says(`serviceaccounts "builder" is forbidden: User "system:node:node-2" cannot get resource "serviceaccounts" in API group "" in the namespace "ci": no relationship found between node 'node-2' and this object`),
			want: `get serviceaccounts ci/builder: HOST returned 403 Forbidden: serviceaccounts "builder" is forbidden: User "system:node:node-2" cannot get resource "serviceaccounts" in API group "" in the namespace "ci": no relationship found between node 'node-2' and this object: a node can read only objects used by its pods, and the API server found no pod on this node that uses this object`,
		},
		{
			name: "pod of another node", user: nodeName,
			with: says(`serviceaccounts "builder" is forbidden: node requested token bound to a pod scheduled on a different node`),
			want: `create serviceaccounts/token ci/builder: HOST returned 403 Forbidden: serviceaccounts "builder" is forbidden: node requested token bound to a pod scheduled on a different node: the pod is not on this node, and a node can request tokens only for its own pods`,
		},
		{
			name: "node without a pod", user: nodeName,
			with: func(_ *testkube.Server, r *regcred.TokenRequest) { r.PodName, r.PodUID = "", "" },
			want: `create serviceaccounts/token ci/builder: HOST returned 403 Forbidden: serviceaccounts "builder" is forbidden: node requested token not bound to a pod: a node can request only tokens that are bound to one of its pods, by name and UID`,
		},
		{
			name: "node without a pod's UID", user: nodeName,
			with: says(`serviceaccounts "builder" is forbidden: node requested token with a pod binding without a uid`),
			want: `create serviceaccounts/token ci/builder: HOST returned 403 Forbidden: serviceaccounts "builder" is forbidden: node requested token with a pod binding without a uid: a node can request only tokens that are bound to one of its pods, by name and UID`,
		},
		{
			name: "node, pod that is another by now", user: nodeName,
			with: says(`serviceaccounts "builder" is forbidden: the UID in the bound object reference (old) does not match the UID in record. The object might have been deleted and then recreated`),
			want: `create serviceaccounts/token ci/builder: HOST returned 403 Forbidden: serviceaccounts "builder" is forbidden: the UID in the bound object reference (old) does not match the UID in record. The object might have been deleted and then recreated`,
		},
		{
			name: "admission webhook", user: testkube.Admin,
			with: says(`admission webhook "tokens.example.com" denied the request: not on Sundays`),
			want: `create serviceaccounts/token ci/builder: HOST returned 403 Forbidden: admission webhook "tokens.example.com" denied the request: not on Sundays`,
		},
		{
			name: "pod of another service account", user: testkube.Admin,
			with: func(s *testkube.Server, r *regcred.TokenRequest) {
				s.AddPod(testkube.Pod{Namespace: "ci", Name: "web", ServiceAccount: "other"})
			},
			want: `create serviceaccounts/token ci/builder: HOST returned 400 Bad Request: cannot bind token for serviceaccount "builder" to pod running with different serviceaccount name.`,
		},
		{
			name: "who is that", user: testkube.Admin, call: "get pods",
			with: func(s *testkube.Server, _ *regcred.TokenRequest) {
				s.Inject(testkube.Fault{Kind: testkube.FaultUnauthorized})
			},
			want: `get pods ci/web: HOST returned 401 Unauthorized: Unauthorized: the API server rejects the client's credentials (a bearer token)`,
		},
		{
			name: "old API server", user: testkube.Admin, call: "create selfsubjectreviews",
			with: func(s *testkube.Server, _ *regcred.TokenRequest) {
				s.Inject(testkube.Fault{Kind: testkube.FaultNotFound, Message: "the server could not find the requested resource"})
			},
			want: `create selfsubjectreviews: HOST returned 404 Not Found: the server could not find the requested resource: the API server is older than Kubernetes 1.28`,
		},
		{
			name: "a message that is none", user: testkube.Admin, call: "get pods",
			with: func(s *testkube.Server, _ *regcred.TokenRequest) {
				s.Inject(testkube.Fault{Kind: testkube.FaultConflict, Message: "a\n\x1b[31mb " + strings.Repeat("ü", 1000)})
			},
			want: `get pods ci/web: HOST returned 409 Conflict: a  [31mb ` + strings.Repeat("ü", 495) + `...`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			api := startServer(t, testkube.Options{})
			req := addAccountAndPod(api)
			if tt.with != nil {
				tt.with(api, &req)
			}
			c := newClient(t, api, tt.user, kube.Options{})
			ask := clientCalls(c)[tt.call]
			if ask == nil {
				ask = func(ctx context.Context) error {
					_, err := c.RequestToken(ctx, req)
					return err
				}
			}
			err := ask(t.Context())
			wantError(t, err)
			if got := strings.ReplaceAll(err.Error(), api.URL(), "HOST"); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// TestNodePermissions verifies which requests a node may send without extra permissions.
func TestNodePermissions(t *testing.T) {
	api := startServer(t, testkube.Options{})
	req := addAccountAndPod(api)
	c := newClient(t, api, nodeName, kube.Options{})
	mustGet(t, c)
	api.Grant(nodeName, testkube.AudienceVerb, req.Audience)
	mustRequest(t, c, req)
}

// TestRetriedRequests verifies which requests are retried and how often.
func TestRetriedRequests(t *testing.T) {
	for _, tt := range []struct {
		name  string
		call  string
		fault testkube.Fault
		calls int
		says  string // part of the error; "" if the call succeeds
	}{
		{"429", "get pods", testkube.Fault{Kind: testkube.FaultTooManyRequests, RetryAfter: 2 * time.Second}, 2, ""},
		{"429, to a creation", "create serviceaccounts/token", testkube.Fault{Kind: testkube.FaultTooManyRequests, RetryAfter: 2 * time.Second}, 2, ""},
		{"429, three times", "get pods", testkube.Fault{Kind: testkube.FaultTooManyRequests, RetryAfter: time.Second, Times: 3}, 4, ""},
		{"429 without Retry-After", "get pods", testkube.Fault{Kind: testkube.FaultTooManyRequests}, 1, "429"},
		{"429, too late", "get pods", testkube.Fault{Kind: testkube.FaultTooManyRequests, RetryAfter: 11 * time.Second}, 1, "retry after 11s"},
		{"503 with Retry-After", "get pods", testkube.Fault{Kind: testkube.FaultUnavailable, RetryAfter: time.Second}, 2, ""},
		{"500", "get pods", testkube.Fault{Kind: testkube.FaultServerError}, 1, "500"},
		{"403 with Retry-After", "get pods", testkube.Fault{Kind: testkube.FaultForbidden, RetryAfter: time.Second}, 1, "403"},
		{"reset", "get pods", testkube.Fault{Kind: testkube.FaultConnReset}, 2, ""},
		{"reset twice", "get pods", testkube.Fault{Kind: testkube.FaultConnReset, Times: 2}, 2, "the connection was closed before the response was complete"},
		{"cut off", "get pods", testkube.Fault{Kind: testkube.FaultTruncate}, 2, ""},
		{"reset of a creation", "create serviceaccounts/token", testkube.Fault{Kind: testkube.FaultConnReset}, 1, "the connection was closed before the response was complete"},
		{"hangs", "get pods", testkube.Fault{Kind: testkube.FaultHang}, 1, "timed out after 10s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := startPipe(t)
				addAccountAndPod(api)
				c := newClient(t, api, testkube.Admin, kube.Options{})
				// The connection is new, so net/http itself retries nothing.
				api.Inject(tt.fault)
				begun := time.Now()
				err := clientCalls(c)[tt.call](t.Context())
				if took := time.Since(begun); took > 10*time.Second {
					t.Errorf("it took %v", took)
				} else if tt.name == "429, too late" && took > 0 {
					t.Errorf("it took %v to notice the lack of time", took)
				}
				verb, resource, _ := strings.Cut(tt.call, " ")
				wantCalls(t, api, verb, resource, tt.calls)
				if tt.says != "" {
					wantError(t, err, tt.says)
				} else if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestTimeout verifies that a call ends at its caller's deadline or at the client's timeout,
// whichever is earlier.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := startPipe(t)
		c := newClient(t, api, testkube.Admin, kube.Options{Timeout: 3 * time.Second})
		api.Inject(testkube.Fault{Kind: testkube.FaultHang, Times: testkube.Forever})
		for name, ask := range clientCalls(c) {
			begun := time.Now()
			err := ask(t.Context())
			wantError(t, err, name, "http://testkube: timed out after 3s")
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 3*time.Second {
				t.Errorf("%s: after %v: %v", name, time.Since(begun), err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			begun = time.Now()
			err = ask(ctx)
			cancel()
			wantError(t, err, name, "context deadline exceeded")
			if time.Since(begun) != time.Second {
				t.Errorf("%s: after %v", name, time.Since(begun))
			}
		}
		time.Sleep(3 * time.Second) // until the abandoned calls end
	})
}

// TestRedirect verifies that the client's credentials are not sent to a redirect's target.
func TestRedirect(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer other.Close()
	proxy := httptest.NewServer(http.RedirectHandler(other.URL+"?token="+url.QueryEscape(canary.TokenSecret), http.StatusFound))
	defer proxy.Close()
	c := must.Get(kube.New(&rest.Config{Host: proxy.URL, BearerToken: canary.TokenSecret}, kube.Options{}))(t)
	for _, ask := range clientCalls(c) {
		wantError(t, ask(t.Context()), "returned 302 Found: the server sent a redirect, which an API server never does: check its address")
	}
}

// TestSubpath verifies a client of an API server whose URL has a path, as behind a management
// server.
func TestSubpath(t *testing.T) {
	api := startServer(t, testkube.Options{})
	addAccountAndPod(api)
	var paths []string
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path)
		http.StripPrefix("/clusters/c-1", api).ServeHTTP(w, r)
	}))
	defer front.Close()
	c, err := kube.New(&rest.Config{Host: front.URL + "/clusters/c-1/", BearerToken: api.Token(testkube.Admin)}, kube.Options{})
	if err != nil {
		t.Fatal(err)
	}
	mustGet(t, c)
	if want := "/clusters/c-1/api/v1/namespaces/ci/serviceaccounts/builder"; len(paths) != 1 || paths[0] != want {
		t.Errorf("asked for %q", paths)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  *rest.Config
		want string
	}{
		{"none", nil, "create API server client: no configuration"},
		{"address", &rest.Config{Host: "https://:%zz"}, `create API server client: address `},
		{"address with a password", &rest.Config{Host: "https://u:" + canary.PasswordSecret + "@h:bad"}, `create API server client: address "h:bad" is neither a URL nor host:port`},
		{"certificate", &rest.Config{Host: "https://h", TLSClientConfig: rest.TLSClientConfig{CAFile: "/nonexistent/ca.crt"}}, "create client for API server https://h: open /nonexistent/ca.crt"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := kube.New(tt.cfg, kube.Options{})
			if err == nil {
				t.Fatal("there is no error")
			}
			canary.AssertAbsent(t, "the error", err.Error())
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got the error of %d bytes, want %s", len(err.Error()), tt.want)
			}
		})
	}
}

// TestURL verifies that URL omits a password.
func TestURL(t *testing.T) {
	for host, want := range map[string]string{
		"https://10.0.0.1:6443": "https://10.0.0.1:6443",
		"10.0.0.1":              "http://10.0.0.1",
		"https://u:" + canary.PasswordSecret + "@api.example/x": "https://api.example/x",
		"u:" + canary.PasswordSecret + "@api.example":           "http://api.example",
	} {
		c, err := kube.New(&rest.Config{Host: host}, kube.Options{})
		if err != nil {
			t.Errorf("want %s, got an error of %d bytes", want, len(err.Error()))
			continue
		}
		if got := c.URL(); got != want {
			t.Errorf("got %d bytes, want %s", len(got), want)
		}
	}
}

// TestNewCopies verifies that New does not modify its configuration, so that several clients can
// share it.
func TestNewCopies(t *testing.T) {
	cfg := &rest.Config{Host: "https://api.example", Timeout: time.Hour}
	must.Get(kube.New(cfg, kube.Options{}))(t)
	if cfg.UserAgent != "" || cfg.Timeout != time.Hour {
		t.Errorf("user agent %q, timeout %v", cfg.UserAgent, cfg.Timeout)
	}
}

// TestUntrusted verifies that an API server gets no request if its certificate is not from a
// trusted CA.
func TestUntrusted(t *testing.T) {
	api := startServer(t, testkube.Options{})
	c, err := kube.New(&rest.Config{Host: api.URL(), BearerToken: api.Token(testkube.Admin)}, kube.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.WhoAmI(t.Context())
	wantError(t, err, "certificate signed by unknown authority")
	wantCalls(t, api, "", "", 0)
}
