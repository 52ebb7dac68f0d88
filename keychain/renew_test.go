// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
)

// TestTokenEnds lets tokens expire several times during a copy of 30 blobs. It verifies that new
// tokens need neither a lookup nor another ping.
func TestTokenEnds(t *testing.T) {
	s, ref := startRegistry(t, testregistry.Options{Auth: testregistry.AuthBearer}, 30)
	u := &providerUsers{}
	u.setUsers(providerUser{key: s.Addr(), user: "other", password: canary.PasswordSecret}, providerUser{key: s.Addr(), user: "good", password: canary.PasswordSecret})
	tr := mustTransport(t, New(u.newKeyring(t, s.Addr()), Options{}), ref.Context())
	execs := 0
	openLayers(t, ref, tr.Wrapper(), func(i int) {
		if i == 0 {
			execs = u.countUsers()
		}
		if i%10 == 5 {
			s.ExpireTokens()
		}
	})
	if pings, anonymous, _ := countLogins(s); u.countUsers() != execs || pings > 1 || anonymous > 0 {
		t.Errorf("%d execs more, %d pings, %d anonymous tokens", u.countUsers()-execs, pings, anonymous)
	}
}

// TestPasswordEnds verifies that a new credential is looked up after a 403 for an expired password,
// which ECR sends.
func TestPasswordEnds(t *testing.T) {
	var ended atomic.Bool
	anybody := []testregistry.Rule{{User: testregistry.AnyUser, Pull: true}}
	f, ref := startProxy(t, testregistry.Options{Auth: testregistry.AuthBasic, Rules: anybody}, 30, func(w http.ResponseWriter, r *http.Request) bool {
		if basicAuthUser(r) != "good" || !ended.Load() {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"errors":[{"code":"DENIED","message":"Your authorization token has expired. Reauthenticate and try again."}]}`)
		return true
	})
	u := &providerUsers{uncached: true}
	u.setUsers(providerUser{key: f.host(), user: "good", password: canary.PasswordSecret})
	tr := mustTransport(t, New(u.newKeyring(t, f.host()), Options{}), ref.Context())
	openLayers(t, ref, tr.Wrapper(), func(i int) {
		if i == 10 {
			ended.Store(true)
			u.setUsers(providerUser{key: f.host(), user: "other", password: canary.PasswordSecret})
		}
	})
	refused := 0
	for _, r := range f.recordedRequests("/blobs/") {
		if basicAuthUser(r) == "good" {
			refused++
		}
	}
	if c := tr.Credential(); c == nil || c.Username != "other" || refused != 11 { // 10 successful requests and a rejected one
		t.Errorf("%+v has it, %d requests by the former", c, refused)
	}
}

// passwordRegistry is a transport to registry.example. The registry has one password, which may change.
type passwordRegistry struct {
	password string
	shown    []string // passwords in requests for manifests
}

func (m *passwordRegistry) RoundTrip(req *http.Request) (*http.Response, error) {
	_, password, ok := req.BasicAuth()
	status := http.StatusUnauthorized
	if ok {
		m.shown = append(m.shown, password)
	}
	if password == m.password {
		status = http.StatusOK
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Www-Authenticate": {`Basic realm="x"`}}, Body: http.NoBody, Request: req}, nil
}

// TestWrongPasswordOnceAMinute verifies that a wrong password is sent once a minute, after a new
// lookup. Each time it is reported to the Keyring, even if the lookup returned the same password.
func TestWrongPasswordOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &passwordRegistry{password: "right"}
		u := &providerUsers{}
		u.setUsers(providerUser{key: "registry.example", user: "good", password: "wrong"})
		k := u.newKeyring(t, "registry.example")
		defer k.Close()
		ref := parseReference(t, "registry.example/team/app:v1")
		tr := mustTransport(t, New(k, Options{Transport: m}), ref.Context())
		get := func() int {
			t.Helper()
			req, _ := http.NewRequestWithContext(t.Context(), "GET", "https://registry.example/v2/team/app/manifests/v1", nil)
			resp := must.Get(tr.RoundTrip(req))(t)
			return resp.StatusCode
		}
		for minute := 1; minute <= 5; minute++ {
			for range 6 {
				if status := get(); status != 401 {
					t.Errorf("status %d", status)
				}
				time.Sleep(10 * time.Second)
			}
			time.Sleep(time.Second)
			if len(m.shown) != minute {
				t.Errorf("after %d minutes it was shown %d times", minute, len(m.shown))
			}
		}
		// The first lookup calls three providers. Each later lookup calls at least the provider
		// whose credential was rejected.
		if n := u.countUsers(); n < 3+4 || n > 3+3*5 {
			t.Errorf("%d execs", n)
		}
		u.setUsers(providerUser{key: "registry.example", user: "good", password: "right"})
		time.Sleep(2 * time.Minute)
		if status := get(); status != 200 {
			t.Errorf("with the right password: status %d", status)
		}
	})
}

// TestRenewalRemembers verifies that a rejected password is not sent again within a minute if a new
// lookup returns it together with another new password.
func TestRenewalRemembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &passwordRegistry{password: "new"}
		u := &providerUsers{}
		u.setUsers(providerUser{key: "registry.example", user: "a", password: "wrong"}, providerUser{key: "registry.example", user: "b", password: "old"})
		k := u.newKeyring(t, "registry.example")
		defer k.Close()
		ref := parseReference(t, "registry.example/team/app:v1")
		tr := mustTransport(t, New(k, Options{Transport: &passwordChanger{m, u}}), ref.Context())
		req, _ := http.NewRequestWithContext(t.Context(), "GET", "https://registry.example/v2/team/app/manifests/v1", nil)
		resp, err := tr.RoundTrip(req)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("got %v, %v", resp, err)
		}
		if want := "wrong old new"; strings.Join(m.shown, " ") != want {
			t.Errorf("shown %q, want %q", m.shown, want)
		}
	})
}

// passwordChanger is a transport that changes the provider's password after the old one is rejected.
type passwordChanger struct {
	*passwordRegistry
	users *providerUsers
}

func (c *passwordChanger) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.passwordRegistry.RoundTrip(req)
	if _, password, _ := req.BasicAuth(); password == "old" {
		c.users.setUsers(providerUser{key: "registry.example", user: "a", password: "wrong"}, providerUser{key: "registry.example", user: "b", password: "new"})
	}
	return resp, err
}

// TestNotCovered verifies that a password remains usable if a registry rejects a token with 401.
// Several registries send 401 instead of 403 if the token does not cover a request.
func TestNotCovered(t *testing.T) {
	f, ref := startProxy(t, testregistry.Options{Auth: testregistry.AuthBearer}, 1, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/referrers/") {
			return false
		}
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	tr := mustTransport(t, New(newGoodKeyring(t, f.host()), Options{}), ref.Context())
	req, _ := http.NewRequestWithContext(t.Context(), "GET", f.URL+"/v2/team/app/referrers/sha256:x", nil)
	if resp, err := tr.RoundTrip(req); err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("got %v, %v", resp, err)
	}
	if err := pullLayers(t.Context(), ref, tr.Wrapper()); err != nil {
		t.Error(err)
	}
}

// TestRenewalFails verifies that the caller still gets the registry's 401 if the repeated lookup
// fails.
func TestRenewalFails(t *testing.T) {
	s, ref := startRegistry(t, testregistry.Options{Auth: testregistry.AuthBasic}, 1)
	u := &providerUsers{}
	u.setUsers(providerUser{key: s.Addr(), user: "good", password: "wrong"})
	tr := mustTransport(t, New(u.newKeyring(t, s.Addr()), Options{Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
		if _, _, ok := req.BasicAuth(); ok {
			u.setUsers(providerUser{err: errors.New("no network")})
		}
		return http.DefaultTransport.RoundTrip(req)
	})}), ref.Context())
	err := pullLayers(t.Context(), ref, tr.Wrapper())
	if err == nil || !strings.Contains(err.Error(), "HTTP 401") || !strings.Contains(err.Error(), "look up other credentials") {
		t.Errorf("got %v", err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// TestRenewsOnceAMinute verifies that the lookup is repeated at most once a minute if the registry
// responds to every request with 403.
func TestRenewsOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &providerUsers{uncached: true, only: 1}
		u.setUsers(providerUser{key: "registry.example", user: "good", password: canary.PasswordSecret})
		k := u.newKeyring(t, "registry.example")
		defer k.Close()
		tr := mustTransport(t, New(k, Options{Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: statusForUser(req), Body: http.NoBody, Header: http.Header{"Www-Authenticate": {`Basic realm="x"`}}, Request: req}, nil
		})}), parseReference(t, "registry.example/team/app").Context())
		for n := range 30 {
			req, _ := http.NewRequestWithContext(t.Context(), "GET", "https://registry.example/v2/team/app/manifests/v1", nil)
			if resp, err := tr.RoundTrip(req); err == nil && resp.StatusCode != http.StatusForbidden {
				t.Errorf("%d: status %d", n, resp.StatusCode)
			}
			time.Sleep(6 * time.Second)
		}
		if n := u.countUsers(); n != 1+3 {
			t.Errorf("%d execs in three minutes", n)
		}
	})
}

// statusForUser returns 403 for requests with a user name, and 401 for others.
func statusForUser(req *http.Request) int {
	if basicAuthUser(req) != "" {
		return http.StatusForbidden
	}
	return http.StatusUnauthorized
}

// TestRenewalCancelled cancels a request during its repeated lookup, and verifies that another
// request still gets the new password.
func TestRenewalCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &passwordRegistry{password: "new"}
		u := &providerUsers{uncached: true, only: 1}
		u.setUsers(providerUser{key: "registry.example", user: "good", password: "old"})
		k := u.newKeyring(t, "registry.example")
		defer k.Close()
		tr := mustTransport(t, New(k, Options{Transport: m}), parseReference(t, "registry.example/team/app").Context())
		get := func(ctx context.Context) (*http.Response, error) {
			req, _ := http.NewRequestWithContext(ctx, "GET", "https://registry.example/v2/team/app/manifests/v1", nil)
			return tr.RoundTrip(req)
		}
		hold := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		must.Get(tr.lookUp(ctx))(t)
		u.wait = hold
		u.setUsers(providerUser{key: "registry.example", user: "good", password: "new"})
		go get(ctx)
		synctest.Wait() // the lookup waits for the provider
		result := make(chan int)
		go func() {
			resp, err := get(t.Context())
			if err != nil {
				t.Error(err)
				result <- 0
				return
			}
			result <- resp.StatusCode
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(hold)
		if status := <-result; status != http.StatusOK {
			t.Errorf("status %d", status)
		}
	})
}
