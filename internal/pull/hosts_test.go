// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/login"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/plugin"
)

// sentRequest is a request that a pull sent.
type sentRequest struct{ url, auth string }

// fakeNetwork sends every TLS request to the handler, for any host name. It rejects requests
// without TLS.
type fakeNetwork struct {
	mu   sync.Mutex
	seen []sentRequest
	tls  http.RoundTripper
}

func newNetwork(t *testing.T, h http.HandlerFunc) *fakeNetwork {
	t.Helper()
	srv := httptest.NewTLSServer(h)
	t.Cleanup(srv.Close)
	tr := srv.Client().Transport.(*http.Transport).Clone()
	tr.TLSClientConfig.ServerName = "example.com" // the name in the test certificate
	tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", srv.Listener.Addr().String())
	}
	return &fakeNetwork{tls: tr}
}

func (n *fakeNetwork) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen = append(n.seen, sentRequest{r.URL.String(), r.Header.Get("Authorization")})
	if r.URL.Scheme != "https" {
		return nil, errors.New("nobody speaks plain HTTP here")
	}
	return n.tls.RoundTrip(r)
}

// checkAuth fails the test if a credential was sent to any other host, or without TLS.
func (n *fakeNetwork) checkAuth(t *testing.T, hosts ...string) {
	t.Helper()
	for _, s := range n.seen {
		u := must.Get(url.Parse(s.url))(t)
		ok := s.auth == ""
		for _, h := range hosts {
			ok = ok || u.Scheme == "https" && u.Host == h
		}
		if !ok {
			t.Errorf("a login was sent to %s", s.url)
		}
	}
}

const secretQuery = "X-Signature=" + canary.ArgSecret

func TestHosts(t *testing.T) {
	challenge := func(realm string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+realm+`",service="s"`)
			w.WriteHeader(401)
		}
	}
	redirect := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v2/" {
				return // no credential is required; the credential is sent anyway
			}
			http.Redirect(w, r, to, http.StatusFound)
		}
	}
	for _, tt := range []struct {
		name     string
		handler  http.HandlerFunc
		host     string
		insecure bool
		says     string
		plain    bool     // the error is login.ErrPlainHTTPNotAllowed
		logins   []string // hosts that may receive the credential
	}{
		{"realm without TLS", challenge("http://auth.example.com/token"), "example.com", false, `plain HTTP to "auth.example.com:80"`, true, nil},
		{"realm without TLS, insecure", challenge("http://auth.example.com/token"), "example.com", true, `plain HTTP to "auth.example.com:80"`, true, nil},
		{"realm at the metadata server", challenge("https://169.254.169.254/token"), "example.com", false, "link-local", false, nil},
		{"realm on loopback", challenge("https://127.0.0.1/token"), "example.com", false, "a loopback or link-local address", false, nil},
		{"realm at localhost", challenge("https://localhost/token"), "example.com", false, "a loopback or link-local address", false, nil},
		{"realm in decimal", challenge("https://2130706433/token"), "example.com", false, "a loopback or link-local address", false, nil},
		{"ping redirected to plain HTTP", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://example.com/v2/", http.StatusFound)
		}, "example.com", false, "stopped after 10 redirects", false, nil},
		// The session continues over TLS to the same host.
		{"manifest redirected to plain HTTP", redirect("http://example.com/x?" + secretQuery), "example.com", false, "stopped after 10 redirects", false, []string{"example.com"}},
		{"manifest redirected to plain HTTP elsewhere", redirect("http://cdn.example.com/x?" + secretQuery), "example.com", false, "plain HTTP", true, []string{"example.com"}},
		{"manifest redirected to plain HTTP elsewhere, insecure", redirect("http://cdn.example.com/x"), "example.com", true, "plain HTTP", true, []string{"example.com"}},
		{"manifest redirected to the metadata server", redirect("https://169.254.169.254/x?" + secretQuery), "example.com", false, "a loopback or link-local address", false, []string{"example.com"}},
		{"manifest redirected to loopback by name", redirect("https://localhost/x"), "example.com", false, "a loopback or link-local address", false, []string{"example.com"}},
		{"manifest redirected to an odd address", redirect("https://0x7f.1/x"), "example.com", false, "a loopback or link-local address", false, []string{"example.com"}},
		{"manifest redirected to a file", redirect("file:///etc/passwd"), "example.com", false, `scheme "file"`, false, []string{"example.com"}},
		{"redirected in circles", redirect("/x"), "example.com", false, "stopped after 10 redirects", false, []string{"example.com"}},
		{"private address", challenge("http://10.0.0.5:5000/token"), "10.0.0.5:5000", false, "plain HTTP", true, nil},
		{"local name", challenge("http://reg.localhost:5000/token"), "reg.localhost:5000", false, "plain HTTP", true, nil},
		{"port of another registry", redirect("https://example.com:8443/x"), "example.com", false, "stopped after 10", false, []string{"example.com"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNetwork(t, tt.handler)
			p := &Puller{Transport: n, Retry: fastRetry, Insecure: tt.insecure}
			err := mustFail(t, p, tt.host+"/x:v1", []regcred.Credential{goodCredential}, t.TempDir())
			if !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %q does not say %q", err, tt.says)
			}
			if got := errors.Is(err, login.ErrPlainHTTPNotAllowed); got != tt.plain {
				t.Errorf("errors.Is(login.ErrPlainHTTP) = %t, want %t: %v", got, tt.plain, err)
			}
			n.checkAuth(t, tt.logins...)
			if len(n.seen) > 2+maxRedirects {
				t.Errorf("%d requests", len(n.seen))
			}
			for _, s := range n.seen {
				if strings.HasPrefix(s.url, "http:") && !tt.insecure {
					t.Errorf("plain HTTP was spoken: %s", s.url)
				}
			}
		})
	}
}

// TestNoPlainHTTP verifies for which registries plain HTTP is tried if they do not respond
// over TLS.
func TestNoPlainHTTP(t *testing.T) {
	for _, tt := range []struct {
		host     string
		insecure bool
		want     bool // whether plain HTTP is tried
	}{
		{"registry.example", false, false},
		{"registry.example", true, true},
		{"10.0.0.5:5000", false, false},
		{"192.168.1.1", false, false},
		{"192.168.1.1", true, true},
		{"reg.localhost:5000", false, false},
		{"127.0.0.1.example:5000", false, false},
		{"localhost:5000", false, true},
		{"127.0.0.1:5000", false, true},
		{"127.8.9.1:5000", false, true},
		{"[::1]:5000", false, true},
	} {
		t.Run(fmt.Sprintf("%s %t", tt.host, tt.insecure), func(t *testing.T) {
			var mu sync.Mutex
			got := false
			p := &Puller{Insecure: tt.insecure, Retry: fastRetry, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				got = got || r.URL.Scheme == "http"
				return nil, errors.New("connection refused")
			})}
			err := mustFail(t, p, tt.host+"/x:v1", []regcred.Credential{goodCredential}, t.TempDir())
			if got != tt.want {
				t.Errorf("plain HTTP was tried: %t, want %t (%v)", got, tt.want, err)
			}
		})
	}
}

func TestTokenServerElsewhere(t *testing.T) {
	n := newNetwork(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Host == "auth.example.com":
			fmt.Fprint(w, `{"access_token":"open-sesame"}`)
		case r.Header.Get("Authorization") != "Bearer open-sesame":
			w.Header().Set("WWW-Authenticate", `Bearer realm="https://auth.example.com/token",service="s"`)
			w.WriteHeader(401)
		default:
			w.WriteHeader(404)
		}
	})
	err := mustFail(t, &Puller{Transport: n}, "example.com/x:v1", []regcred.Credential{goodCredential}, t.TempDir())
	if err.Tries[0].Status != 404 {
		t.Fatalf("status %d, want 404, after a login", err.Tries[0].Status)
	}
	n.checkAuth(t, "example.com", "auth.example.com")
	for _, s := range n.seen {
		if strings.HasPrefix(s.auth, "Basic ") && !strings.HasPrefix(s.url, "https://auth.example.com/token?") {
			t.Errorf("the password was sent to %s", s.url)
		}
	}
}

// TestBlobsOnOtherServer verifies that the credential is not sent to another server that
// stores the registry's blobs.
func TestBlobsOnOtherServer(t *testing.T) {
	for _, auth := range []testregistry.Auth{testregistry.AuthBasic, testregistry.AuthBearer} {
		store, _, _ := startRegistry(t, testregistry.AuthNone)
		reg, image, _ := startRegistryWith(t, testregistry.Options{Auth: auth, RedirectBlobs: store.URL()}, testregistry.Image{})
		mustPull(t, &Puller{}, image, []regcred.Credential{goodCredential}, t.TempDir())
		got := store.Requests()
		if len(got) != 3 {
			t.Errorf("the store got %d requests, want 3", len(got))
		}
		for _, r := range got {
			if r.Scheme != "" {
				t.Errorf("the store got a login: %+v", r)
			}
		}
		checkNeverAnonymous(t, reg)
	}
}

// TestEchoingServer verifies that errors do not contain the password in any encoding if the
// registry returns it.
func TestEchoingServer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer func(w http.ResponseWriter, auth, password string)
	}{
		{"as the message", func(w http.ResponseWriter, auth, password string) {
			w.WriteHeader(403)
			fmt.Fprintf(w, `{"errors":[{"code":%q,"message":%q,"detail":%q}]}`, "CODE "+password, auth+"\x1b[31m\n"+password, password)
		}},
		{"as plain text", func(w http.ResponseWriter, auth, password string) {
			w.WriteHeader(500)
			fmt.Fprint(w, auth, password, url.QueryEscape(password))
		}},
		{"as a redirect", func(w http.ResponseWriter, _, password string) {
			w.Header().Set("Location", "http://example.com/?"+url.QueryEscape(password))
			w.WriteHeader(302)
		}},
		{"as a host", func(w http.ResponseWriter, _, password string) {
			w.Header().Set("Location", "ftp://"+password+"/"+password)
			w.WriteHeader(302)
		}},
		{"as a token", func(w http.ResponseWriter, _, password string) {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="https://auth.example.com/%s"`, url.PathEscape(password)))
			w.WriteHeader(401)
		}},
		{"as a type", func(w http.ResponseWriter, _, password string) {
			w.Header().Set("Content-Type", "x/"+password)
			fmt.Fprintf(w, `{"mediaType":%q}`, password)
		}},
		{"without end", func(w http.ResponseWriter, _, _ string) {
			w.WriteHeader(400)
			for range 1 << 10 {
				fmt.Fprint(w, strings.Repeat("x", 1<<10))
			}
		}},
	} {
		for _, path := range []string{"manifest", "ping"} {
			t.Run(tt.name+", "+path, func(t *testing.T) {
				cred := goodCredential
				cred.Password = plugin.NewSecret(cred.Password.Reveal() + " %&\"é") // encodings change these characters
				n := newNetwork(t, func(w http.ResponseWriter, r *http.Request) {
					if r.Host == "auth.example.com" { // a token server that responds without a token
						fmt.Fprintf(w, `{"password":%q,"id_token":%q}`, cred.Password.Reveal(), canary.TokenSecret)
						return
					}
					if r.URL.Path == "/v2/" && path == "manifest" {
						w.Header().Set("WWW-Authenticate", "Basic realm=x")
						w.WriteHeader(401)
						return
					}
					auth := base64.StdEncoding.EncodeToString([]byte("ci:" + cred.Password.Reveal()))
					tt.answer(w, auth, cred.Password.Reveal())
				})
				err := mustFail(t, &Puller{Transport: n, Retry: fastRetry}, "example.com/x:v1", []regcred.Credential{cred}, t.TempDir())
				canary.AssertAbsent(t, "the try", fmt.Sprintf("%+v", err.Tries[0]))
				if s := err.Error(); strings.ContainsAny(s, "\x1b\n") || len(s) > 3000 {
					t.Errorf("%d bytes of error with control characters, or too long: %.300q", len(s), s)
				}
			})
		}
	}
}

// TestEndlessAnswers verifies that only a limited part of an endless response is read.
func TestEndlessAnswers(t *testing.T) {
	const enough = 64 << 20 // bytes; far more than all buffers
	for _, tt := range []struct {
		name, path string
		status     int
		want       int // Try.Status
	}{
		{"ping", "/v2/", 200, 404},
		{"ping, refused", "/v2/", 403, 404},
		{"manifest, refused", "/v2/x/manifests/v1", 403, 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var mu sync.Mutex
			sent := 0
			n := newNetwork(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != tt.path {
					if r.URL.Path != "/v2/" {
						w.WriteHeader(404)
					}
					return
				}
				mu.Lock()
				defer mu.Unlock()
				w.WriteHeader(tt.status)
				chunk := make([]byte, 1<<16)
				for sent < enough {
					if _, err := w.Write(chunk); err != nil {
						return
					}
					sent += len(chunk)
				}
			})
			err := mustFail(t, &Puller{Transport: n}, "example.com/x:v1", nil, t.TempDir())
			if got := err.Tries[0].Status; got != tt.want {
				t.Errorf("status %d, want %d: %v", got, tt.want, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if sent >= enough {
				t.Errorf("all of %d bytes were read", sent)
			}
		})
	}
}
