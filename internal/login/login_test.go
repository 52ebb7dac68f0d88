// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/plugin"
)

// recordingServer is an HTTP server that records the requests to a registry.
type recordingServer struct {
	*httptest.Server
	inner     http.Handler
	intercept func(http.ResponseWriter, *http.Request) bool // called first; reports whether it has sent a response

	mu         sync.Mutex
	requestLog []string // "GET /v2/ agent"
}

func (f *recordingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	agent, _, _ := strings.Cut(r.UserAgent(), " ")
	f.requestLog = append(f.requestLog, r.Method+" "+r.URL.Path+" "+agent)
	f.mu.Unlock()
	if f.intercept == nil || !f.intercept(w, r) {
		f.inner.ServeHTTP(w, r)
	}
}

func (f *recordingServer) takeRequests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requestLog)
}

// startRegistry starts a registry with the repository team/app for the user "good". It returns the
// server and a Registry that connects to it.
func startRegistry(t *testing.T, auth testregistry.Auth, tls bool, on func(http.ResponseWriter, *http.Request) bool) (*recordingServer, *Registry) {
	t.Helper()
	f := &recordingServer{intercept: on}
	f.Server = httptest.NewUnstartedServer(f)
	f.Config.ErrorLog = log.New(io.Discard, "", 0)
	host, base := f.Listener.Addr().String(), "http://"+f.Listener.Addr().String()
	if tls {
		host, base = "registry.example.com", "https://auth.example.com"
	}
	s, err := testregistry.New(testregistry.Options{Auth: auth, Users: map[string]string{"good": canary.PasswordSecret}, TokenServerURL: base})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	must.Get(s.Push("team/app", "v1", testregistry.Image{}))(t)
	f.inner = s
	registry := must.Get(name.NewRegistry(host))(t)
	target := must.Get(NewTarget(registry, "repository:team/app:pull", false))(t)
	r := &Registry{Target: target, Secrets: &Secrets{}, Retry: RetryOptions{Wait: time.Millisecond}}
	if tls {
		f.StartTLS()
		r.Transport = f.Client().Transport
	} else {
		f.Start()
	}
	t.Cleanup(f.Close)
	return f, r
}

func newCredential(user, password string) *regcred.Credential {
	return &regcred.Credential{Username: user, Password: plugin.NewSecret(password), Provider: "test"}
}

// httpGet requests url with the user agent "tool".
func httpGet(t *testing.T, rt http.RoundTripper, url string) *http.Response {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), "GET", url, nil))(t)
	req.Header.Set("User-Agent", "tool/1")
	resp := must.Get(rt.RoundTrip(req))(t)
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// TestLogin verifies that one ping serves all credentials, and that the user agent is preserved.
func TestLogin(t *testing.T) {
	for _, auth := range []testregistry.Auth{testregistry.AuthNone, testregistry.AuthBasic, testregistry.AuthBearer} {
		for _, tls := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d, tls %t", auth, tls), func(t *testing.T) {
				f, r := startRegistry(t, auth, tls, nil)
				url := f.URL
				if tls {
					url = "https://registry.example.com"
				}
				for _, cred := range []*regcred.Credential{nil, newCredential("good", "wrong"), newCredential("good", canary.PasswordSecret)} {
					s, err := r.Login(t.Context(), cred)
					if err != nil {
						if StatusCode(err) != http.StatusUnauthorized {
							t.Error(err)
						}
						continue
					}
					want := http.StatusUnauthorized
					if auth == testregistry.AuthNone || cred != nil && cred.Password.Reveal() == canary.PasswordSecret {
						want = http.StatusOK
					}
					if resp := httpGet(t, s, url+"/v2/team/app/manifests/v1"); resp.StatusCode != want {
						t.Errorf("%v: status %d, want %d", cred, resp.StatusCode, want)
					}
				}
				pings := 0
				for _, line := range f.takeRequests() {
					switch {
					case strings.Contains(line, "/v2/ "):
						pings++
						fallthrough
					case strings.Contains(line, "/token"):
						if !strings.HasSuffix(line, " regcred") {
							t.Errorf("a login signed otherwise: %s", line)
						}
					case !strings.HasSuffix(line, " tool/1"):
						t.Error(line)
					}
				}
				if pings != 1 {
					t.Errorf("%d pings", pings)
				}
			})
		}
	}
}

// TestTimeouts verifies that each request has its own retry budget, unless the requests share one.
func TestTimeouts(t *testing.T) {
	for _, shared := range []bool{false, true} {
		n := 0
		f, r := startRegistry(t, testregistry.AuthNone, false, func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, "/manifests/") {
				n++
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			}
			return false
		})
		r.Retry = RetryOptions{Wait: time.Millisecond, Attempts: 3}
		if shared {
			r.Budget = NewRetryBudget(r.Retry)
		}
		s := must.Get(r.Login(t.Context(), nil))(t)
		httpGet(t, s, f.URL+"/v2/team/app/manifests/v1")
		first := n
		if shared {
			r.Budget.takeTime(r.Budget.remaining)
		}
		httpGet(t, s, f.URL+"/v2/team/app/manifests/v1")
		if again := n - first; first != 3 || shared && again != 1 || !shared && again != 3 {
			t.Errorf("shared %t: %d requests, and then %d", shared, first, again)
		}
	}
}

// TestIdleServer verifies the timeout for servers that do not respond to a ping or a content
// request, or stop in the middle of a response.
func TestIdleServer(t *testing.T) {
	for _, path := range []string{"/v2/", "/manifests/", "begins"} {
		t.Run(path, func(t *testing.T) {
			done := make(chan struct{})
			f, r := startRegistry(t, testregistry.AuthNone, false, func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != path && !(path != "/v2/" && strings.Contains(r.URL.Path, "/manifests/")) {
					return false
				}
				if path == "begins" {
					fmt.Fprint(w, "x")
					_ = http.NewResponseController(w).Flush()
				}
				select {
				case <-r.Context().Done():
				case <-done:
				}
				return true
			})
			t.Cleanup(func() { close(done) })
			r.IdleTimeout, r.ResponseTimeout = 20*time.Millisecond, 20*time.Millisecond
			s, err := r.Login(t.Context(), nil)
			if err == nil {
				req, _ := http.NewRequestWithContext(t.Context(), "GET", f.URL+"/v2/team/app/manifests/v1", nil)
				var resp *http.Response
				if resp, err = s.RoundTrip(req); err == nil {
					_, err = io.ReadAll(resp.Body)
					resp.Body.Close()
				}
			}
			if !errors.Is(err, errIdleTimeout) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestCredentialStaysAtRegistry verifies that a credential is sent to the registry under every spelling of its host, and never with a
// request that names another host.
func TestCredentialStaysAtRegistry(t *testing.T) {
	shown := map[string]bool{}
	for _, auth := range []testregistry.Auth{testregistry.AuthBasic, testregistry.AuthBearer} {
		_, r := startRegistry(t, auth, true, nil)
		inner := r.Transport
		var last *http.Request
		r.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
			if last = req; req.URL.Path == "/v2/" || req.URL.Path == "/token" {
				return inner.RoundTrip(req)
			}
			return &http.Response{StatusCode: 200, Body: http.NoBody, Header: http.Header{}}, nil
		})
		r.Learn(httpGet(t, r, "https://registry.example.com/v2/"))
		s := must.Get(r.Login(t.Context(), newCredential("good", canary.PasswordSecret)))(t)
		for _, tt := range []struct {
			url, host string
			want      bool
		}{
			{"https://registry.example.com", "", true},
			{"https://registry.example.com:443", "", true},
			{"https://Registry.Example.Com", "registry.example.com:443", true},
			{"https://registry.example.com:444", "", false},
			{"https://other.example.com", "", false},
			{"https://other.example.com", "registry.example.com", false},
			{"https://registry.example.com", "other.example.com", false},
			{"https://registry.example.com.", "", false},
			{"https://registry-1.docker.io", "", false},
		} {
			req, _ := http.NewRequestWithContext(t.Context(), "GET", tt.url+"/x", nil)
			req.Host = tt.host
			if _, err := s.RoundTrip(req); err != nil {
				t.Errorf("%+v: %v", tt, err)
			}
			if got := last.Header.Get("Authorization") != ""; got != tt.want {
				t.Errorf("%+v: shown %t", tt, got)
			}
			shown[tt.url] = true
		}
	}
}

func TestIsRegistryURL(t *testing.T) {
	for _, tt := range []struct {
		registry, url string
		want          bool
	}{
		{"registry.example", "https://registry.example/v2/", true},
		{"registry.example:5000", "https://registry.example/v2/", false},
		{"127.0.0.1:80", "http://127.0.0.1/v2/", true},
		{"127.0.0.1:443", "http://127.0.0.1/v2/", false},
		{"[::1]:5000", "http://[::1]:5000/v2/", true},
		{"index.docker.io", "https://registry-1.docker.io/v2/", true},
		{"index.docker.io", "https://docker.io/v2/", false},
		{"registry-1.docker.io", "https://index.docker.io/v2/", false},
	} {
		registry := must.Get(name.NewRegistry(tt.registry))(t)
		target := must.Get(NewTarget(registry, "", false))(t)
		req, _ := http.NewRequestWithContext(context.Background(), "GET", tt.url, nil)
		if got := target.IsToRegistry(req); got != tt.want {
			t.Errorf("%s, %s: %t", tt.registry, tt.url, got)
		}
	}
}

// TestUploadOnce verifies that a request body is recreated when a request is sent again with a new
// token. If the body cannot be recreated, the request must fail.
func TestUploadOnce(t *testing.T) {
	for _, again := range []bool{false, true} {
		tokens := 0
		var bodies []string
		f, r := startRegistry(t, testregistry.AuthBearer, false, func(w http.ResponseWriter, r *http.Request) bool {
			switch {
			case r.URL.Path == "/token":
				tokens++
				fmt.Fprintf(w, `{"access_token":"t%d","refresh_token":"no"}`, tokens)
			case r.Method == "PUT":
				b, _ := io.ReadAll(r.Body)
				bodies = append(bodies, string(b))
				if r.Header.Get("Authorization") != "Bearer t2" {
					w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token",scope="more"`)
					w.WriteHeader(http.StatusUnauthorized)
				}
			default:
				return false
			}
			return true
		})
		s := must.Get(r.Login(t.Context(), newCredential("good", canary.PasswordSecret)))(t)
		req, _ := http.NewRequestWithContext(t.Context(), "PUT", f.URL+"/v2/team/app/manifests/x", io.NopCloser(strings.NewReader("body")))
		if again {
			req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("body")), nil }
		}
		resp, err := s.RoundTrip(req)
		if again != (err == nil) || again && resp.StatusCode != 200 || !again && !errors.Is(err, errBodyNotReplayable) {
			t.Errorf("again %t: got %v, %v", again, resp, err)
		}
		for _, b := range bodies {
			if b != "body" {
				t.Errorf("sent %q", b)
			}
		}
	}
}
