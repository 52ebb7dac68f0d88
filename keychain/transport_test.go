// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/login"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
)

var authSchemes = map[string]testregistry.Auth{"basic": testregistry.AuthBasic, "bearer": testregistry.AuthBearer}

// TestOrder verifies that the third credential is used if the first two are wrong. Even concurrent
// requests send each wrong password only once, with one ping and no anonymous token.
func TestOrder(t *testing.T) {
	for scheme, auth := range authSchemes {
		t.Run(scheme, func(t *testing.T) {
			s, ref := startRegistry(t, testregistry.Options{Auth: auth}, 8)
			u := &providerUsers{}
			u.setUsers(providerUser{key: s.Addr(), user: "good", password: "wrong"}, providerUser{key: s.Addr(), user: "other", password: canary.PasswordSecret}, providerUser{key: s.Addr(), user: "good", password: canary.PasswordSecret})
			tr := mustTransport(t, New(u.newKeyring(t, s.Addr()), Options{}), ref.Context())
			if tr.Credential() != nil {
				t.Error("a credential before the first request")
			}
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					if err := pullLayers(t.Context(), ref, tr.Wrapper()); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			pings, anonymous, refused := countLogins(s)
			if pings > 1 || anonymous != 0 || refused["good"] != 1 || refused["other"] > 1 {
				t.Errorf("%d pings, %d anonymous tokens, refused %v", pings, anonymous, refused)
			}
			if got := tr.Credential(); got == nil || got.Provider != "p2" {
				t.Errorf("accepted %+v, want p2's", got)
			}
		})
	}
}

// TestAllRefused verifies that the response lists all rejected credentials, and that a later
// request does not send the wrong password again.
func TestAllRefused(t *testing.T) {
	for scheme, auth := range authSchemes {
		t.Run(scheme, func(t *testing.T) {
			s, ref := startRegistry(t, testregistry.Options{Auth: auth}, 1)
			u := &providerUsers{}
			u.setUsers(providerUser{key: s.Addr(), user: "good", password: "wrong"}, providerUser{key: s.Addr(), user: "other", password: canary.PasswordSecret})
			tr := mustTransport(t, New(u.newKeyring(t, s.Addr()), Options{}), ref.Context())
			err := pullLayers(t.Context(), ref, tr.Wrapper())
			var terr *transport.Error
			if !errors.As(err, &terr) || len(terr.Errors) != 2 {
				t.Fatalf("got %v", err)
			}
			for i, want := range []string{`provider "p0", user "good": .*HTTP 401 UNAUTHORIZED`, `provider "p1", user "other": .*HTTP 40`} {
				if got := terr.Errors[i].Message; !regexp.MustCompile("^" + want).MatchString(got) {
					t.Errorf("error %d is %q, want %q", i, got, want)
				}
			}
			canary.AssertAbsent(t, "the error", err.Error())
			s.ResetLog()
			if err := pullLayers(t.Context(), ref, tr.Wrapper()); err == nil {
				t.Error("pulled")
			}
			if _, _, refused := countLogins(s); refused["good"] > 0 {
				t.Errorf("a wrong password is sent again: %v", refused)
			}
		})
	}
}

// TestProviderFails verifies that no request is sent to the registry if a provider fails.
func TestProviderFails(t *testing.T) {
	s, ref := startRegistry(t, testregistry.Options{Auth: testregistry.AuthNone}, 1)
	u := &providerUsers{}
	u.setUsers(providerUser{err: errors.New("no network")})
	tr := mustTransport(t, New(u.newKeyring(t, s.Addr()), Options{}), ref.Context())
	err := pullLayers(t.Context(), ref, tr.Wrapper())
	if _, ok := errors.AsType[*regcred.LookupError](err); !ok || len(s.Requests()) > 0 {
		t.Errorf("got %v, %d requests", err, len(s.Requests()))
	}
}

// TestAnonymous verifies that a pull without credentials logs in once, anonymously.
func TestAnonymous(t *testing.T) {
	for _, auth := range []testregistry.Auth{testregistry.AuthNone, testregistry.AuthBearer} {
		s, ref := startRegistry(t, testregistry.Options{Auth: auth, Rules: []testregistry.Rule{{User: testregistry.Anonymous, Pull: true}}}, 3)
		tr := mustTransport(t, New((&providerUsers{}).newKeyring(t, s.Addr()), Options{}), ref.Context())
		if err := pullLayers(t.Context(), ref, tr.Wrapper()); err != nil {
			t.Error(err)
		}
		if _, anonymous, _ := countLogins(s); anonymous > 1 {
			t.Errorf("%d anonymous tokens", anonymous)
		}
	}
}

// TestPasswordChangeDuringCopy changes the password during a copy of 30 blobs, and verifies that
// the copy succeeds and sends the old password at most twice more.
func TestPasswordChangeDuringCopy(t *testing.T) {
	for scheme, auth := range authSchemes {
		t.Run(scheme, func(t *testing.T) {
			s, ref := startRegistry(t, testregistry.Options{Auth: auth}, 30)
			u := &providerUsers{}
			u.setUsers(providerUser{key: s.Addr(), user: "good", password: canary.PasswordSecret})
			tr := mustTransport(t, New(u.newKeyring(t, s.Addr()), Options{}), ref.Context())
			openLayers(t, ref, tr.Wrapper(), func(i int) {
				if i == 10 {
					s.SetUser("good", canary.PasswordSecret+"2")
					s.ExpireTokens()
					u.setUsers(providerUser{key: s.Addr(), user: "good", password: canary.PasswordSecret + "2"})
				}
			})
			if _, _, refused := countLogins(s); refused["good"] > 2 {
				t.Errorf("the old password was sent %d times", refused["good"])
			}
		})
	}
}

// TestOtherRepository verifies that a transport sends no credentials for another repository.
func TestOtherRepository(t *testing.T) {
	s, ref := startRegistry(t, testregistry.Options{Auth: testregistry.AuthBasic}, 1)
	k := New((&providerUsers{}).newKeyring(t, s.Addr()), Options{})
	tr := mustTransport(t, k, ref.Context())
	other := must.Get(http.NewRequest("GET", s.URL()+"/v2/team/app2/manifests/v1", nil))(t)
	if _, err := tr.RoundTrip(other); err == nil || len(s.Requests()) > 0 {
		t.Errorf("got %v", err)
	}
	if _, err := mustTransport(t, k, ref.Context().Registry).RoundTrip(other); err == nil || len(s.Requests()) > 0 {
		t.Errorf("of a registry: got %v", err)
	}
}

// TestManyRefusals verifies that a response with many rejections fits into 8 KiB. Clients read no
// more, and show nothing if they cannot decode the body.
func TestManyRefusals(t *testing.T) {
	out := &outcome{}
	for range 40 {
		out.refusals = append(out.refusals, refusal{FailedAttempt: login.FailedAttempt{Status: http.StatusUnauthorized, Err: errors.New(strings.Repeat(`"<é`, 200))}})
	}
	var body struct {
		Errors []struct{ Code, Message string }
	}
	text := out.errorBody()
	if err := json.Unmarshal(text, &body); err != nil || len(text) > maxBodySize || len(body.Errors) != 40 || len(body.Errors[39].Message) < 20 {
		t.Errorf("%d bytes, %d messages, %v", len(text), len(body.Errors), err)
	}
}
