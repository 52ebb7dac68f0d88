// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

// scriptedRegistry is a registry whose responses come from a function in the test. It records requests.
type scriptedRegistry struct {
	*httptest.Server
	host string

	mu   sync.Mutex
	seen []string // requests as "METHOD PATH USER", such as "GET /v2/ u0"
}

func startScriptedRegistry(t *testing.T, answer func(s *scriptedRegistry, w http.ResponseWriter, r *http.Request)) *scriptedRegistry {
	t.Helper()
	s := &scriptedRegistry{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		by := "nobody"
		if user, _, ok := r.BasicAuth(); ok {
			by = user
		} else if r.Header.Get("Authorization") != "" {
			by = "token"
		}
		s.mu.Lock()
		s.seen = append(s.seen, r.Method+" "+r.URL.Path+" "+by)
		s.mu.Unlock()
		answer(s, w, r)
	}))
	t.Cleanup(s.Close)
	s.host = strings.TrimPrefix(s.URL, "http://")
	return s
}

// takeRequests returns the requests since the last call.
func (s *scriptedRegistry) takeRequests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = nil
	return seen
}

func (s *scriptedRegistry) bearer() string {
	return fmt.Sprintf(`Bearer realm="%s/token",service="x"`, s.URL)
}

func respondUnauthorized(w http.ResponseWriter, challenges ...string) {
	w.Header()["Www-Authenticate"] = challenges
	w.WriteHeader(http.StatusUnauthorized)
}

// serveToken responds like a registry that issues a token to every client and accepts it.
func (s *scriptedRegistry) serveToken(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/token":
		fmt.Fprintf(w, `{"token":%q}`, canary.TokenSecret)
	case r.Header.Get("Authorization") == "Bearer "+canary.TokenSecret:
		io.WriteString(w, "ok")
	default:
		respondUnauthorized(w, s.bearer())
	}
}

// newTransport returns a transport with the credentials of n users, named "u0", "u1" and so on.
func (s *scriptedRegistry) newTransport(t *testing.T, n int) *Transport {
	t.Helper()
	u := &providerUsers{only: max(n, 1)}
	var pairs []providerUser
	for i := range n {
		pairs = append(pairs, providerUser{key: s.host, user: fmt.Sprintf("u%d", i), password: canary.PasswordSecret})
	}
	u.setUsers(pairs...)
	ref := must.Get(name.ParseReference(s.host + "/team/app:v1"))(t)
	return mustTransport(t, New(u.newKeyring(t, s.host), Options{}), ref.Context())
}

const manifest = "/v2/team/app/manifests/v1"

func (s *scriptedRegistry) getManifest(t *testing.T, rt http.RoundTripper) int {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), "GET", s.URL+manifest, nil))(t)
	resp := must.Get(rt.RoundTrip(req))(t)
	resp.Body.Close()
	return resp.StatusCode
}

// TestOpenPing verifies pulls from a registry that sends no challenge at /v2/ but requires tokens
// for its repositories. Container runtimes can pull from such a registry.
func TestOpenPing(t *testing.T) {
	for name, tt := range map[string]struct {
		users int
		by    string
	}{"anonymous": {0, "nobody"}, "one": {1, "u0"}, "two": {2, "u0"}} {
		t.Run(name, func(t *testing.T) {
			s := startScriptedRegistry(t, func(s *scriptedRegistry, w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/v2/" {
					s.serveToken(w, r)
				}
			})
			tr := s.newTransport(t, tt.users)
			want := []string{"GET /v2/ nobody", "GET " + manifest + " nobody", "GET /token " + tt.by, "GET " + manifest + " token"}
			for range 2 {
				if status := s.getManifest(t, tr); status != http.StatusOK {
					t.Errorf("status %d", status)
				}
				if got := s.takeRequests(); !slices.Equal(got, want) {
					t.Errorf("got  %q\nwant %q", got, want)
				}
				want = want[len(want)-1:]
			}
		})
	}
}

// TestOutOfOrderPing verifies that requests succeed if the first response of the registry is a
// maintenance page without a challenge.
func TestOutOfOrderPing(t *testing.T) {
	var once sync.Once
	s := startScriptedRegistry(t, func(s *scriptedRegistry, w http.ResponseWriter, r *http.Request) {
		maintenance := false
		once.Do(func() { maintenance = true })
		if maintenance {
			io.WriteString(w, "back soon")
			return
		}
		s.serveToken(w, r)
	})
	tr := s.newTransport(t, 1)
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			if status := s.getManifest(t, tr); status != http.StatusOK {
				t.Errorf("status %d", status)
			}
		})
	}
	wg.Wait()
	logins := 0
	for _, r := range s.takeRequests() {
		if strings.HasPrefix(r, "GET /token") {
			logins++
		}
	}
	if logins != 1 {
		t.Errorf("%d tokens were requested", logins)
	}
}

// TestTwoChallenges verifies that a token is requested although Basic comes first, and that a wrong password is sent
// only once.
func TestTwoChallenges(t *testing.T) {
	s := startScriptedRegistry(t, func(s *scriptedRegistry, w http.ResponseWriter, _ *http.Request) {
		respondUnauthorized(w, `Basic realm="x"`, s.bearer())
	})
	tr := s.newTransport(t, 2)
	want := []string{"GET /v2/ nobody", "GET /token u0", "GET /token u1"}
	for range 3 {
		if status := s.getManifest(t, tr); status != http.StatusUnauthorized {
			t.Errorf("status %d", status)
		}
		if got := s.takeRequests(); !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		want = nil
	}
}

// TestResponseHasCallersRequest verifies that a response's Request is the caller's request.
func TestResponseHasCallersRequest(t *testing.T) {
	for name, auth := range map[string]string{"Basic": `Basic realm="x"`, "Bearer": ""} {
		t.Run(name, func(t *testing.T) {
			s := startScriptedRegistry(t, func(s *scriptedRegistry, w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.HasSuffix(r.URL.Path, "/moved") && r.Header.Get("Authorization") != "":
					http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
				case auth == "":
					s.serveToken(w, r)
				case r.Header.Get("Authorization") == "":
					respondUnauthorized(w, auth)
				}
			})
			tr := s.newTransport(t, 1)
			for _, path := range []string{manifest, "/v2/team/app/blobs/moved"} {
				req := must.Get(http.NewRequest("GET", s.URL+path, nil))(t)
				resp := must.Get(tr.RoundTrip(req))(t)
				resp.Body.Close()
				if resp.StatusCode >= 400 || resp.Request != req || len(req.Header) != 0 {
					t.Errorf("%s: status %d, and another request, or with headers of ours", path, resp.StatusCode)
				}
			}
		})
	}
}

// TestOpaque verifies that a URL with an opaque part is rejected, because its path is not the path
// that would be sent.
func TestOpaque(t *testing.T) {
	s := startScriptedRegistry(t, func(*scriptedRegistry, http.ResponseWriter, *http.Request) {})
	tr := s.newTransport(t, 1)
	for _, opaque := range []string{"/v2/team/other/manifests/v1", "//other.example/v2/team/app/manifests/v1"} {
		req := must.Get(http.NewRequest("GET", s.URL+manifest, nil))(t)
		req.URL.Opaque = opaque
		if resp, err := tr.RoundTrip(req); err == nil {
			resp.Body.Close()
			t.Errorf("%s: no error", opaque)
		}
	}
	if got := s.takeRequests(); len(got) != 0 {
		t.Errorf("asked for: %q", got)
	}
}
