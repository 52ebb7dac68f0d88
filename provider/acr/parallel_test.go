// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
)

// newWaitingHandler returns a handler that calls next after other is closed. If that does not happen, it
// fails the test.
func newWaitingHandler(t *testing.T, other <-chan struct{}, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-other:
		case <-time.After(10 * time.Second):
			t.Errorf("only %s was called", r.URL.Path)
		}
		next.ServeHTTP(w, r)
	})
}

// TestChallengeInParallel verifies that the challenge is requested while the token is requested,
// and that this request contains no secret.
func TestChallengeInParallel(t *testing.T) {
	for name, tt := range map[string]struct {
		host string
		req  *plugin.Request
	}{
		"managed identity": {"imds.test", imageRequest("foo.azurecr.io/x")},
		"service account":  {"login.microsoftonline.com", podRequest("foo.azurecr.io/x", identityAnnotations("c", "t"))},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestCloud(t, managedIdentityConfig)
			challenged := make(chan struct{})
			w.net.Handle("foo.azurecr.io", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v2/" {
					if r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" || r.URL.RawQuery != "" || r.ContentLength > 0 {
						t.Errorf("the challenge was requested with %v", r.Header)
					}
					close(challenged)
				}
				w.az.ServeHTTP(rw, r)
			}))
			w.net.Handle(tt.host, newWaitingHandler(t, challenged, w.az))
			w.mustGetCredentials(tt.req)
		})
	}
}

// countingTransport is a transport that counts concurrent requests.
type countingTransport struct {
	http.RoundTripper
	inFlight atomic.Int32
}

func (c *countingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	c.inFlight.Add(1)
	defer c.inFlight.Add(-1)
	return c.RoundTripper.RoundTrip(req)
}

// TestTokenFails verifies that a failed token request is reported without waiting for the registry.
func TestTokenFails(t *testing.T) {
	for name, challenge := range map[string]func(*testCloud){
		"a registry that hangs":     func(w *testCloud) { w.net.Handle("foo.azurecr.io", newHangingHandler("/v2/", w.az, nil)) },
		"a registry that refuses":   func(w *testCloud) { w.az.Inject(testcloud.Fault{Path: "/v2/", Status: 403, Times: -1}) },
		"a registry that is absent": func(w *testCloud) { w.az.Inject(testcloud.Fault{Path: "/v2/", Drop: true, Times: -1}) },
		"a registry that is there":  func(*testCloud) {},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestCloud(t, managedIdentityConfig)
			challenge(w)
			w.az.Inject(testcloud.Fault{Path: imdsPath, Status: 400, Times: -1})
			transport := &countingTransport{RoundTripper: w.opts.Transport}
			w.opts.Transport = transport
			begun := time.Now()
			w.checkError(imageRequest("foo.azurecr.io/x"), "get a token for the node's managed identity: GET http://imds.test/metadata/identity/oauth2/token: status 400")
			if took := time.Since(begun); took > 5*time.Second || transport.inFlight.Load() != 0 {
				t.Errorf("it took %v, and %d requests are left", took, transport.inFlight.Load())
			}
		})
	}
}

// TestBothFail verifies that the error of the token request is reported if the challenge request
// fails too. The identity must be fixed first.
func TestBothFail(t *testing.T) {
	w := newTestCloud(t, managedIdentityConfig)
	refused := make(chan struct{})
	w.net.Handle("foo.azurecr.io", http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusForbidden)
		close(refused)
	}))
	w.net.Handle("imds.test", newWaitingHandler(t, refused, w.az))
	w.az.Inject(testcloud.Fault{Path: imdsPath, Status: 400, Times: -1})
	_, err := w.getCredentials(imageRequest("foo.azurecr.io/x"))
	if err == nil || !strings.Contains(err.Error(), "managed identity") || strings.Contains(err.Error(), "/v2/") {
		t.Errorf("got the error %v", err)
	}
}

// TestCanceledInParallel verifies that a canceled call returns and leaves no request behind.
func TestCanceledInParallel(t *testing.T) {
	w := newTestCloud(t, managedIdentityConfig)
	ctx, cancel := context.WithCancel(context.Background())
	w.net.Handle("foo.azurecr.io", newHangingHandler("/v2/", w.az, cancel))
	w.net.Handle("imds.test", newHangingHandler(imdsPath, w.az, nil))
	transport := &countingTransport{RoundTripper: w.opts.Transport}
	w.opts.Transport = transport
	if _, err := w.newProvider().GetCredentials(ctx, imageRequest("foo.azurecr.io/x")); err == nil || !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("got the error %v", err)
	}
	if n := transport.inFlight.Load(); n != 0 {
		t.Errorf("%d requests are left", n)
	}
}

// TestNoRequestWithoutIdentity verifies that the registry is not called if there is no identity, or
// if the static secret is returned.
func TestNoRequestWithoutIdentity(t *testing.T) {
	w := newTestCloud(t, `{}`)
	w.checkError(imageRequest("foo.azurecr.io/x"), "has no identity")
	w.opts.ConfigFile, w.opts.StaticSecret = w.writeFile("azure.json", servicePrincipalConfig), true
	w.mustGetCredentials(imageRequest("foo.azurecr.io/x"))
	if len(w.az.SortedRequestLines()) > 0 {
		t.Errorf("asked %q", w.az.SortedRequestLines())
	}
}
