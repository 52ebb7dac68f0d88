// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
)

// TestRedirects verifies that the target of a redirect gets no credential. After a redirect back to
// the registry, the registry gets the credential again.
func TestRedirects(t *testing.T) {
	for scheme, auth := range authSchemes {
		for _, kind := range []string{"blobs", "manifests"} {
			t.Run(scheme+", "+kind, func(t *testing.T) {
				var f *registryProxy
				store := newForeignServer(t, func(w http.ResponseWriter, r *http.Request) {
					if strings.HasPrefix(r.URL.Path, "/back") {
						http.Redirect(w, r, f.URL+strings.TrimPrefix(r.URL.Path, "/back")+"?back", http.StatusTemporaryRedirect)
						return
					}
					f.registry.ServeHTTP(w, r.WithContext(context.Background()))
				})
				f, ref := startProxy(t, testregistry.Options{Auth: auth}, 2, func(w http.ResponseWriter, r *http.Request) bool {
					if !strings.Contains(r.URL.Path, "/"+kind+"/") || r.URL.RawQuery == "back" || r.Header.Get("Authorization") == "" {
						return false
					}
					http.Redirect(w, r, store.URL+"/back"+r.URL.Path, http.StatusTemporaryRedirect)
					return true
				})
				if err := pullLayers(t.Context(), ref, mustTransport(t, New(newGoodKeyring(t, f.host()), Options{}), ref.Context()).Wrapper()); err != nil {
					t.Error(err)
				}
				if len(store.recordedRequests("/back")) == 0 {
					t.Error("nobody was redirected")
				}
			})
		}
	}
}

// TestHostHeader verifies that a credential is sent only if the URL and the Host header both name
// the registry.
func TestHostHeader(t *testing.T) {
	for scheme, auth := range authSchemes {
		t.Run(scheme, func(t *testing.T) {
			other := newForeignServer(t, func(w http.ResponseWriter, r *http.Request) {})
			f, ref := startProxy(t, testregistry.Options{Auth: auth}, 1, nil)
			tr := mustTransport(t, New(newGoodKeyring(t, f.host()), Options{}), ref.Context())
			must.Do(t, pullLayers(t.Context(), ref, tr.Wrapper()))
			shown := func() (n int) {
				for _, r := range f.recordedRequests("/manifests/") {
					if r.Header.Get("Authorization") != "" {
						n++
					}
				}
				return n
			}
			before := shown()
			for _, tt := range []struct{ url, host string }{{other.URL, f.host()}, {f.URL, other.host()}} {
				req, _ := http.NewRequestWithContext(t.Context(), "GET", tt.url+"/v2/team/app/manifests/v1", nil)
				req.Host = tt.host
				resp := must.Get(tr.RoundTrip(req))(t)
				resp.Body.Close()
			}
			if n := shown(); n != before {
				t.Errorf("%d credentials were shown to another host of the registry's server", n-before)
			}
			if n := len(other.recordedRequests("/manifests/")); n != 1 {
				t.Errorf("the other host had %d requests, want 1", n)
			}
		})
	}
}

// TestRedirectToOtherHost verifies that a request to another host does not cause a login at the
// registry.
func TestRedirectToOtherHost(t *testing.T) {
	other := newForeignServer(t, func(w http.ResponseWriter, r *http.Request) {})
	f, ref := startProxy(t, testregistry.Options{Auth: testregistry.AuthBearer}, 1, nil)
	tr := mustTransport(t, New(newGoodKeyring(t, f.host()), Options{}), ref.Context())
	req, _ := http.NewRequestWithContext(t.Context(), "GET", other.URL+"/x", nil)
	resp := must.Get(tr.RoundTrip(req))(t)
	resp.Body.Close()
	if n := len(f.recordedRequests("")); n > 0 {
		t.Errorf("%d requests to the registry", n)
	}
	req, _ = http.NewRequestWithContext(t.Context(), "GET", "http://registry.example/x?signature=0123456789abcdef", nil)
	if _, err := tr.RoundTrip(req); err == nil || strings.Contains(err.Error(), "0123456789abcdef") {
		t.Errorf("plain HTTP elsewhere: got %v", err)
	}
}

// TestTLSRedirects verifies that a redirect to another host name of the same server gets no
// credential, and that a redirect from TLS to plain HTTP fails.
func TestTLSRedirects(t *testing.T) {
	to := ""
	f, rt := startTLSProxy(t, testregistry.Options{Auth: testregistry.AuthBasic}, 1, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") || r.Host != "registry.example.com" {
			return false
		}
		http.Redirect(w, r, to+r.URL.Path, http.StatusTemporaryRedirect)
		return true
	})
	ref := parseReference(t, "registry.example.com/team/app:v1")
	tr := mustTransport(t, New(newGoodKeyring(t, "registry.example.com"), Options{Transport: rt}), ref.Context())
	to = "https://store.example.com"
	if err := pullLayers(t.Context(), ref, tr.Wrapper()); err == nil {
		t.Error("the store let a stranger in")
	}
	found := false
	for _, r := range f.recordedRequests("/blobs/") {
		if r.Host == "store.example.com" {
			found = true
			if r.Header.Get("Authorization") != "" {
				t.Error("a credential went along")
			}
		}
	}
	if !found {
		t.Error("nobody was redirected")
	}
	to = "http://store.example.com"
	if err := pullLayers(t.Context(), ref, tr.Wrapper()); err == nil || !strings.Contains(err.Error(), "plain HTTP") {
		t.Errorf("got %v", err)
	}
}

// TestRealms verifies to which token servers a password is sent.
func TestRealms(t *testing.T) {
	for _, tt := range []struct{ realm, want string }{
		{"https://auth.example.com/token", ""},
		{"http://auth.example.com/token", "plain HTTP"},
		{"https://169.254.169.254/token", "link-local"},
		{"https://[fd00:ec2::254]/token", "link-local"},
		{"https://2852039166/token", "link-local"},
		{"https://[::ffff:169.254.169.254]/token", "link-local"},
		{"https://127.0.0.1/token", "a loopback or link-local address"},
		{"https://[::1]/token", "a loopback or link-local address"},
		{"https://localhost/token", "a loopback or link-local address"},
		{"file:///etc/passwd", "unsupported scheme"},
		{"/token", "unsupported scheme"},
	} {
		t.Run(tt.realm, func(t *testing.T) {
			f, rt := startTLSProxy(t, testregistry.Options{Auth: testregistry.AuthBearer, TokenServerURL: "https://unused.example.com"}, 1, func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/v2/" {
					return false
				}
				w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm=%q,service="testregistry"`, tt.realm))
				w.WriteHeader(http.StatusUnauthorized)
				return true
			})
			guarded := &guard{t, rt}
			ref := parseReference(t, "registry.example.com/team/app:v1")
			err := pullLayers(t.Context(), ref, mustTransport(t, New(newGoodKeyring(t, "registry.example.com"), Options{Transport: guarded}), ref.Context()).Wrapper())
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if n := len(f.recordedRequests("/token")); tt.want != "" && n > 0 {
				t.Errorf("%d requests for tokens", n)
			}
		})
	}
}

// guard is a transport that fails the test for requests to hosts outside example.com.
type guard struct {
	t     *testing.T
	inner http.RoundTripper
}

func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(req.URL.Hostname(), ".example.com") {
		g.t.Errorf("%s was called", req.URL)
		return nil, fmt.Errorf("refused")
	}
	return g.inner.RoundTrip(req)
}

// TestTokenServerRedirects verifies that the password is not sent to the host to which a token
// server redirects.
func TestTokenServerRedirects(t *testing.T) {
	f, rt := startTLSProxy(t, testregistry.Options{Auth: testregistry.AuthBearer, TokenServerURL: "https://auth.example.com"}, 1, func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.URL.Path != "/token":
			return false
		case r.Host == "other.example.com":
			fmt.Fprint(w, `{"token":"stolen"}`)
		default:
			http.Redirect(w, r, "https://other.example.com/token", http.StatusTemporaryRedirect)
		}
		return true
	})
	ref := parseReference(t, "registry.example.com/team/app:v1")
	tr := mustTransport(t, New(newGoodKeyring(t, "registry.example.com"), Options{Transport: &guard{t, rt}}), ref.Context())
	if err := pullLayers(t.Context(), ref, tr.Wrapper()); err == nil {
		t.Error("pulled")
	}
	shown := map[string]bool{}
	for _, r := range f.recordedRequests("/token") {
		shown[r.Host] = shown[r.Host] || r.Header.Get("Authorization") != "" || strings.Contains(r.body, canary.Marker)
	}
	if want := map[string]bool{"auth.example.com": true, "other.example.com": false}; !maps.Equal(shown, want) {
		t.Errorf("shown to %v, want %v", shown, want)
	}
}

// TestPingRedirects verifies that a pull succeeds and no credential is sent elsewhere if the ping
// is redirected to another host.
func TestPingRedirects(t *testing.T) {
	other := newForeignServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="elsewhere"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	f, ref := startProxy(t, testregistry.Options{Auth: testregistry.AuthBasic}, 1, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/v2/" {
			http.Redirect(w, r, other.URL+"/v2/", http.StatusTemporaryRedirect)
			return true
		}
		return false
	})
	tr := mustTransport(t, New(newGoodKeyring(t, f.host()), Options{}), ref.Context())
	if _, err := remote.Get(ref, remote.WithTransport(tr.Wrapper())); err != nil {
		t.Error(err)
	}
}
