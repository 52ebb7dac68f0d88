// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
)

// teamRules are the rules of a registry with two teams, as in the GitHub issues below. Each user may
// pull one repository.
var teamRules = []testregistry.Rule{
	{User: "good", Prefix: "team/app", Pull: true, Push: true},
	{User: "other", Prefix: "team/db", Pull: true},
}

// newPullSecret returns a pull secret with one credential.
func newPullSecret(t testing.TB, title, key, user, password string) regcred.PullSecret {
	t.Helper()
	file, err := json.Marshal(map[string]any{"auths": map[string]any{key: map[string]string{"username": user, "password": password}}})
	if err != nil {
		t.Fatal(err)
	}
	return regcred.PullSecret{Namespace: "ci", Name: title, Type: "kubernetes.io/dockerconfigjson", Data: map[string][]byte{".dockerconfigjson": file}}
}

// newEmptyKeyring returns a keyring without providers.
func newEmptyKeyring(t testing.TB) *regcred.Keyring {
	t.Helper()
	k := must.Get(regcred.New(new(config.Config), regcred.Options{}))(t)
	t.Cleanup(func() { k.Close() })
	return k
}

// twoTeams returns a registry with the repositories team/app and team/db.
func twoTeams(t testing.TB, auth testregistry.Auth) (s *testregistry.Server, app, db name.Reference) {
	t.Helper()
	s, app = startRegistry(t, testregistry.Options{Auth: auth, Rules: teamRules}, 2)
	must.Get(s.Push("team/db", "v1", testregistry.Image{Seed: 2}))(t)
	db = must.Get(name.ParseReference(s.Addr() + "/team/db:v1"))(t)
	return s, app, db
}

// TestSecretsOfOneRegistry verifies google/go-containerregistry#723 and knative/serving#13126. A
// pod has two images of one registry and a pull secret for each. Both images can be pulled, in
// either order of the secrets.
func TestSecretsOfOneRegistry(t *testing.T) {
	for scheme, auth := range authSchemes {
		for _, turned := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, turned %t", scheme, turned), func(t *testing.T) {
				s, app, db := twoTeams(t, auth)
				secrets := []regcred.PullSecret{
					newPullSecret(t, "of-app", s.Addr(), "good", canary.PasswordSecret),
					newPullSecret(t, "of-db", s.Addr(), "other", canary.PasswordSecret),
				}
				if turned {
					slices.Reverse(secrets)
				}
				keys := New(newEmptyKeyring(t), Options{For: regcred.Request{PullSecrets: secrets}})
				for ref, want := range map[name.Reference]string{app: "good", db: "other"} {
					tr := mustTransport(t, keys, ref.Context())
					if err := pullLayers(t.Context(), ref, tr.Wrapper()); err != nil {
						t.Error(err)
					}
					if c := tr.Credential(); c == nil || c.Username != want || c.Origin.PullSecret == nil {
						t.Errorf("%s was pulled with %+v, want %s", ref, c, want)
					}
				}
			})
		}
	}
}

// TestStaleSecretFirst verifies google/go-containerregistry#1431. If a credential has expired, the
// next credential for the same registry is tried, as in the kubelet.
func TestStaleSecretFirst(t *testing.T) {
	for scheme, auth := range authSchemes {
		t.Run(scheme, func(t *testing.T) {
			s, app, _ := twoTeams(t, auth)
			keys := New(newEmptyKeyring(t), Options{For: regcred.Request{PullSecrets: []regcred.PullSecret{
				newPullSecret(t, "old", s.Addr(), "good", "stale"),
				newPullSecret(t, "gone", s.Addr(), "nobody", "stale"),
				newPullSecret(t, "new", s.Addr(), "good", canary.PasswordSecret),
			}}})
			if err := pullLayers(t.Context(), app, mustTransport(t, keys, app.Context()).Wrapper()); err != nil {
				t.Error(err)
			}
			if pings, anonymous, refused := countLogins(s); refused["good"] != 1 || refused["nobody"] != 1 || anonymous > 0 || pings > 1 {
				t.Errorf("%d pings, %d anonymous tokens, refused %v", pings, anonymous, refused)
			}
		})
	}
}

// TestSecretsBeforeProviders verifies the kubelet's order: first the pull secrets, with the longest
// auth key first, and then the node's providers.
func TestSecretsBeforeProviders(t *testing.T) {
	s, app, _ := twoTeams(t, testregistry.AuthBasic)
	u := &providerUsers{}
	u.setUsers(providerUser{key: s.Addr(), user: "good", password: canary.PasswordSecret})
	keys := New(u.newKeyring(t, s.Addr()), Options{For: regcred.Request{PullSecrets: []regcred.PullSecret{
		newPullSecret(t, "host", s.Addr(), "by-host", "stale"),
		newPullSecret(t, "path", s.Addr()+"/team", "by-path", "stale"),
		newPullSecret(t, "elsewhere", s.Addr()+"/other", "elsewhere", "stale"),
	}}})
	if err := pullLayers(t.Context(), app, mustTransport(t, keys, app.Context()).Wrapper()); err != nil {
		t.Error(err)
	}
	var order []string
	for _, r := range s.Requests() {
		if r.User != "" && !slices.Contains(order, r.User) {
			order = append(order, r.User)
		}
	}
	if want := []string{"by-path", "by-host", "good"}; !slices.Equal(order, want) {
		t.Errorf("tried %q, want %q", order, want)
	}
}

// TestHelperFails verifies that if a provider fails and there is no other credential, a Transport
// and a Keychain send no request to the registry. Other credentials are still used.
func TestHelperFails(t *testing.T) {
	s, app, _ := twoTeams(t, testregistry.AuthBearer)
	u := &providerUsers{}
	u.setUsers(providerUser{err: errors.New("no network")})
	k := u.newKeyring(t, s.Addr())
	err := pullLayers(t.Context(), app, mustTransport(t, New(k, Options{}), app.Context()).Wrapper())
	var failed *regcred.LookupError
	if !errors.As(err, &failed) {
		t.Errorf("a Transport: got %v, want a LookupError", err)
	}
	// A MultiKeychain does not fall back to anonymous access.
	chain := authn.NewMultiKeychain(New(k, Options{}), authn.DefaultKeychain)
	if a, err := chain.Resolve(app.Context()); !errors.As(err, &failed) {
		t.Errorf("a Keychain: got %v, %v, want a LookupError", a, err)
	}
	if n := len(s.Requests()); n > 0 {
		t.Errorf("%d requests", n)
	}
	with := New(k, Options{For: regcred.Request{PullSecrets: []regcred.PullSecret{newPullSecret(t, "app", s.Addr(), "good", canary.PasswordSecret)}}})
	if err := pullLayers(t.Context(), app, mustTransport(t, with, app.Context()).Wrapper()); err != nil {
		t.Error(err)
	}
}

// TestRegistryAndRepository verifies that a registry lookup calls no provider with a path in its pattern and uses no
// pull secret with a path.
func TestRegistryAndRepository(t *testing.T) {
	s, app, _ := twoTeams(t, testregistry.AuthBasic)
	u := &providerUsers{}
	u.setUsers(providerUser{key: s.Addr() + "/team", user: "good", password: canary.PasswordSecret})
	keys := New(u.newKeyring(t, s.Addr()+"/team"), Options{For: regcred.Request{PullSecrets: []regcred.PullSecret{newPullSecret(t, "db", s.Addr()+"/team/db", "other", canary.PasswordSecret)}}})
	for resource, want := range map[authn.Resource]string{app.Context(): "good", app.Context().Registry: ""} {
		a := must.Get(keys.ResolveContext(t.Context(), resource))(t)
		if got, err := authn.Authorization(t.Context(), a); err != nil || got.Username != want {
			t.Errorf("%s: got %q, %v, want %q", resource, got.Username, err, want)
		}
	}
	tr := mustTransport(t, keys, app.Context().Registry)
	req, _ := http.NewRequestWithContext(context.Background(), "GET", s.URL()+"/v2/", nil)
	resp, err := tr.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || tr.Credential() != nil {
		t.Errorf("got %v, %v", resp, err)
	}
}
