// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
)

// challengeWith sends a 401 with a challenge.
func challengeWith(w http.ResponseWriter, challenge string) bool {
	w.Header().Set("WWW-Authenticate", challenge)
	w.WriteHeader(http.StatusUnauthorized)
	return true
}

// hideMissing returns 401 for "missing" to every user, as registries do that hide what a user may not see, for "others" to
// the user "other", for blobs to reads of "pusher", and 404 for "gone".
func hideMissing(w http.ResponseWriter, r *http.Request) bool {
	switch name := basicAuthUser(r); {
	case name == "":
		return false
	case strings.HasSuffix(r.URL.Path, "/gone"):
		w.WriteHeader(http.StatusNotFound)
		return true
	case strings.HasSuffix(r.URL.Path, "/forbidden"):
		w.WriteHeader(http.StatusForbidden)
		return true
	case strings.HasSuffix(r.URL.Path, "/missing"), name == "other" && strings.HasSuffix(r.URL.Path, "/others"),
		strings.Contains(r.URL.Path, "/sha256:"):
		return challengeWith(w, `Basic realm="x"`)
	case strings.HasSuffix(r.URL.Path, "/others"):
		w.WriteHeader(http.StatusOK)
		return true
	}
	return false
}

// TestUnauthorizedPath verifies that a 401 for one path does not disable a credential for the others.
func TestUnauthorizedPath(t *testing.T) {
	const tags, uploads = "/v2/team/app/manifests/", "/v2/team/app/blobs/uploads/"
	for _, tt := range []struct {
		name     string
		users    []string
		requests string // method, path and expected status
		sent     int    // requests with a password, with checks
	}{
		{"missing", []string{"good"}, "GET v1 200, GET missing 401, GET v1 200, GET missing 401, GET v1 200", 5 + 2},
		{"missing, HEAD", []string{"good"}, "HEAD v1 200, HEAD missing 401, HEAD v1 200", 3 + 1},
		{"missing after 404", []string{"good"}, "HEAD gone 404, HEAD missing 401, GET v1 200", 3 + 1},
		{"missing after 403", []string{"good"}, "HEAD forbidden 403, HEAD missing 401, GET v1 200", 3 + 1},
		{"several users", []string{"other", "good"}, "GET v1 200, GET missing 401, GET others 200, GET v1 200", 4 + 2 + 3},
		{"only for writing", []string{"good"}, "HEAD blob 401, POST upload 202, HEAD blob 401, POST upload 202", 4 + 1},
		{"only for reading", []string{"other"}, "GET v1 200, POST upload 403, GET v1 200", 3},
		{"wrong password", []string{"wrong"}, "GET v1 401, GET v1 401, POST upload 401, GET v1 401, POST upload 401", 2},
		{"wrong password, writes", []string{"wrong"}, "POST upload 401, POST upload 401, GET v1 401", 2},
		{"wrong password and good one", []string{"wrong", "good"}, "GET v1 200, GET missing 401, GET v1 200, POST upload 202", 5 + 1},
		{"wrong password after a good one", []string{"good", "wrong"}, "GET v1 200, GET missing 401, GET missing 401, GET v1 200", 4 + 2 + 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, ref := startProxy(t, testregistry.Options{Auth: testregistry.AuthBasic, Rules: pushRights}, 1, hideMissing)
			u := &providerUsers{}
			for _, name := range tt.users {
				u.pairs = append(u.pairs, providerUser{key: f.host(), user: name, password: canary.PasswordSecret})
			}
			tr := mustTransport(t, New(u.newKeyring(t, f.host()), Options{}), ref.Context())
			for _, r := range strings.Split(tt.requests, ", ") {
				part := strings.Fields(r)
				path := tags + part[1]
				switch part[1] {
				case "upload":
					path = uploads
				case "blob":
					path = "/v2/team/app/blobs/sha256:x"
				}
				if got := statusOf(t, tr, part[0], f.URL+path); fmt.Sprint(got) != part[2] {
					t.Errorf("%s: got %d", r, got)
				}
			}
			if got := withPassword(f, ""); got != tt.sent {
				t.Errorf("%d requests with a password, want %d", got, tt.sent)
			}
		})
	}
}

// statusOf returns the status of the response to a request.
func statusOf(t testing.TB, rt http.RoundTripper, method, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	must.Do(t, err)
	resp, err := rt.RoundTrip(req)
	if err != nil {
		t.Errorf("%s %s: %v", method, url, err)
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// withPassword counts requests with a user and password for paths that contain a text.
func withPassword(f *registryProxy, path string) (n int) {
	for _, r := range f.recordedRequests(path) {
		if basicAuthUser(r) != "" {
			n++
		}
	}
	return n
}

// TestNotInvalidated verifies that a 401 for one path neither invalidates the credential in the Keyring nor rejects
// a token's credential, for both authentication methods and for a request without a credential.
func TestNotInvalidated(t *testing.T) {
	for scheme, auth := range authSchemes {
		t.Run(scheme, func(t *testing.T) {
			f, ref := startProxy(t, testregistry.Options{Auth: auth}, 1, func(w http.ResponseWriter, r *http.Request) bool {
				if auth == testregistry.AuthBasic {
					return hideMissing(w, r)
				}
				return strings.HasSuffix(r.URL.Path, "/missing") && challengeWith(w, fmt.Sprintf(`Bearer realm="http://%s/token",service="testregistry",scope="repository:team/app:pull"`, r.Host))
			})
			u := &providerUsers{only: 1}
			u.setUsers(providerUser{key: f.host(), user: "good", password: canary.PasswordSecret})
			keys := New(u.newKeyring(t, f.host()), Options{})
			for range 2 { // the second Transport uses the Keyring's cache
				tr := mustTransport(t, keys, ref.Context())
				for _, r := range []struct {
					tag  string
					want int
				}{{"v1", 200}, {"missing", 401}, {"v1", 200}} {
					if got := statusOf(t, tr, "GET", f.URL+"/v2/team/app/manifests/"+r.tag); got != r.want {
						t.Errorf("%s: %d", r.tag, got)
					}
				}
			}
			if n := u.countUsers(); n != 1 {
				t.Errorf("%d executions", n)
			}
		})
	}
	t.Run("anonymous", func(t *testing.T) {
		f, ref := startProxy(t, testregistry.Options{}, 1, func(w http.ResponseWriter, r *http.Request) bool {
			return strings.HasSuffix(r.URL.Path, "/missing") && challengeWith(w, `Basic realm="x"`)
		})
		tr := mustTransport(t, New(newEmptyKeyring(t), Options{}), ref.Context())
		for tag, want := range map[string]int{"v1": 200} {
			for range 2 {
				if got := statusOf(t, tr, "GET", f.URL+"/v2/team/app/manifests/"+tag); got != want {
					t.Errorf("%s: %d", tag, got)
				}
				if got := statusOf(t, tr, "GET", f.URL+"/v2/team/app/manifests/missing"); got != 401 {
					t.Errorf("missing: %d", got)
				}
			}
		}
	})
}

// TestRevokedPassword verifies that a password that is revoked after it was accepted is sent once more for a request
// and once for /v2/, and that the credential is invalidated. It also verifies responses to /v2/ that prove nothing.
func TestRevokedPassword(t *testing.T) {
	for _, tt := range []struct {
		name string
		ping func(w http.ResponseWriter, r *http.Request) bool // response to /v2/ after the revocation
	}{
		{"401", nil},
		{"open to all", func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(200); return true }},
		{"404", func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(404); return true }},
		{"forbidden to all", func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(403); return true }},
		{"rate limit", func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(429); return true }},
		{"redirect", func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "/login", http.StatusFound)
			return true
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var revoked atomic.Bool
			f, ref := startProxy(t, testregistry.Options{Auth: testregistry.AuthBasic, Rules: pushRights}, 1, func(w http.ResponseWriter, r *http.Request) bool {
				return r.URL.Path == "/v2/" && revoked.Load() && tt.ping != nil && tt.ping(w, r)
			})
			u := &providerUsers{only: 1}
			u.setUsers(providerUser{key: f.host(), user: "good", password: canary.PasswordSecret})
			tr := mustTransport(t, New(u.newKeyring(t, f.host()), Options{}), ref.Context())
			if got := statusOf(t, tr, "GET", f.URL+"/v2/team/app/manifests/v1"); got != 200 {
				t.Fatalf("got %d before the revocation", got)
			}
			f.registry.RemoveUser("good")
			revoked.Store(true)
			before := withPassword(f, "")
			for i := range 10 {
				method := []string{"GET", "HEAD", "POST"}[i%3]
				path := []string{fmt.Sprintf("manifests/v%d", i), "blobs/sha256:x", "blobs/uploads/"}[i%3]
				if got := statusOf(t, tr, method, f.URL+"/v2/team/app/"+path); got != 401 {
					t.Errorf("%s %s: %d", method, path, got)
				}
			}
			if sent := withPassword(f, "") - before; sent != 2 {
				t.Errorf("the revoked password was sent %d times", sent)
			}
			if n := u.countUsers(); n != 2 {
				t.Errorf("%d executions", n)
			}
		})
	}
}

// TestConcurrentUnauthorized verifies that concurrent requests share checks, that those for other paths
// succeed, and that a revoked password is not sent again afterwards.
func TestConcurrentUnauthorized(t *testing.T) {
	f, ref := startProxy(t, testregistry.Options{Auth: testregistry.AuthBasic}, 1, hideMissing)
	u := &providerUsers{only: 1}
	u.setUsers(providerUser{key: f.host(), user: "good", password: canary.PasswordSecret})
	tr := mustTransport(t, New(u.newKeyring(t, f.host()), Options{}), ref.Context())
	all := func(want map[string]int) {
		var wg sync.WaitGroup
		for tag, code := range want {
			for range 20 {
				wg.Go(func() {
					if got := statusOf(t, tr, "GET", f.URL+"/v2/team/app/manifests/"+tag); got != code {
						t.Errorf("%s: %d", tag, got)
					}
				})
			}
		}
		wg.Wait()
	}
	all(map[string]int{"v1": 200})
	all(map[string]int{"v1": 200, "missing": 401})
	if n := withPassword(f, "/v2/") - withPassword(f, "/manifests/"); n > 20 { // none if another request succeeds meanwhile
		t.Errorf("%d checks", n)
	}
	if n := u.countUsers(); n != 1 {
		t.Errorf("%d executions", n)
	}
	f.registry.RemoveUser("good")
	before := withPassword(f, "")
	all(map[string]int{"v1": 401, "missing": 401})
	if n := withPassword(f, "") - before; n > 40+1 {
		t.Errorf("the revoked password was sent %d times by 40 requests", n)
	}
	before = withPassword(f, "")
	all(map[string]int{"v1": 401, "v2": 401})
	if n := withPassword(f, "") - before; n > 0 {
		t.Errorf("the revoked password was sent %d times more", n)
	}
}

// TestTokenForMore verifies that a token server's 401 to a request for another repository's token does not
// disable the credential, and that its 401 to a revoked password does.
func TestTokenForMore(t *testing.T) {
	f, ref := startProxy(t, testregistry.Options{Auth: testregistry.AuthBearer}, 1, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/token" {
			return strings.Contains(fmt.Sprint(r.URL.Query()["scope"]), "secret") && challengeWith(w, `Basic realm="x"`)
		}
		return strings.HasSuffix(r.URL.Path, "/missing") && challengeWith(w, fmt.Sprintf(`Bearer realm="http://%s/token",service="testregistry",scope="repository:secret:pull"`, r.Host))
	})
	tr := mustTransport(t, New(newGoodKeyring(t, f.host()), Options{}), ref.Context())
	for _, r := range []struct {
		tag  string
		want int
	}{{"v1", 200}, {"missing", 401}, {"v1", 200}} {
		if got := statusOf(t, tr, "GET", f.URL+"/v2/team/app/manifests/"+r.tag); got != r.want {
			t.Errorf("%s: %d", r.tag, got)
		}
	}
	f.registry.RemoveUser("good")
	f.registry.ExpireTokens()
	before := withPassword(f, "/token")
	for range 5 {
		if got := statusOf(t, tr, "GET", f.URL+"/v2/team/app/manifests/v1"); got != 401 {
			t.Errorf("revoked: %d", got)
		}
	}
	if n := withPassword(f, "/token") - before; n > 3 {
		t.Errorf("the revoked password was sent %d times", n)
	}
}
