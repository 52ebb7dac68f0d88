// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package orasclient

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/keychain"
)

// TestOrder verifies that the third credential is used if the first two are rejected. Even
// concurrent requests send each rejected password only once, and there is no anonymous login.
func TestOrder(t *testing.T) {
	forEachAuth(t, func(t *testing.T, scheme testregistry.Auth) {
		s := startRegistry(t, testregistry.Options{Auth: scheme}, testregistry.Image{Layers: 8})
		c := newClient(t, providerUser{s.Addr(), "reader", "wrong", nil}, providerUser{s.Addr(), "nobody", canary.PasswordSecret, nil}, providerUser{s.Addr(), "reader", canary.PasswordSecret, nil})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if _, err := pullImage(t.Context(), newRepository(t, c, s.Addr()+"/team/app"), "v1"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		got := countRequests(s)
		if got["reader 401"] != 1 || got["nobody 403"]+got["nobody 401"] > 1 || got["anonymous tokens"] > 0 || got["GET /v2/"] > 2 {
			t.Error(got)
		}
	})
}

// TestPaths copies an image between two repositories of one host with one Client, and verifies that
// each repository gets the credential for its own path.
func TestPaths(t *testing.T) {
	forEachAuth(t, func(t *testing.T, scheme testregistry.Auth) {
		s := startRegistry(t, testregistry.Options{Auth: scheme, Rules: []testregistry.Rule{
			{User: "reader", Prefix: "team", Pull: true}, {User: "pusher", Prefix: "copies", Pull: true, Push: true},
		}}, smallImage)
		c := newClient(t, providerUser{s.Addr() + "/team", "reader", canary.PasswordSecret, nil}, providerUser{s.Addr() + "/copies", "pusher", canary.PasswordSecret, nil})
		from, to := newRepository(t, c, s.Addr()+"/team/app"), newRepository(t, c, s.Addr()+"/copies/app")
		must.Get(oras.Copy(t.Context(), from, "v1", to, "v1", oras.DefaultCopyOptions))(t)
		for _, r := range s.Requests() {
			if want := map[bool]string{true: "reader", false: "pusher"}[regexp.MustCompile("^/v2/team/").MatchString(r.Path)]; r.User != "" && r.Path != "/token" && r.User != want {
				t.Errorf("%s %s by %s", r.Method, r.Path, r.User)
			}
		}
	})
}

// TestNotFound verifies that no other credential is tried after a 404 if the current credential was
// accepted before.
func TestNotFound(t *testing.T) {
	s := startRegistry(t, testregistry.Options{Auth: testregistry.AuthBasic}, smallImage)
	c := newClient(t, providerUser{s.Addr(), "reader", canary.PasswordSecret, nil}, providerUser{s.Addr(), "pusher", canary.PasswordSecret, nil})
	repo := newRepository(t, c, s.Addr()+"/team/app")
	desc := must.Get(repo.Resolve(t.Context(), "v1"))(t)
	s.ResetLog()
	if _, err := repo.Resolve(t.Context(), "v2"); !errors.Is(err, errdef.ErrNotFound) || len(s.Requests()) != 1 {
		t.Errorf("got %v, %d requests", err, len(s.Requests()))
	}
	s.ResetLog()
	if _, err := repo.Predecessors(t.Context(), desc); err != nil || len(s.Requests()) != 1 {
		t.Errorf("referrers: %v, %d requests", err, len(s.Requests()))
	}
}

// TestRetries verifies that only one layer retries requests, so a failing request is sent four
// times in total.
func TestRetries(t *testing.T) {
	for _, tt := range []struct{ times, want int }{{1, 2}, {testregistry.Forever, 4}} {
		t.Run(fmt.Sprint(tt.times), func(t *testing.T) {
			t.Parallel()
			s := startRegistry(t, testregistry.Options{Auth: testregistry.AuthBasic}, smallImage)
			repo := newRepository(t, newClient(t, providerUser{s.Addr(), "reader", canary.PasswordSecret, nil}), s.Addr()+"/team/app")
			s.Inject(testregistry.Fault{Kind: testregistry.FaultServerError, Endpoint: testregistry.EndpointManifests, Times: tt.times})
			_, err := repo.Resolve(t.Context(), "v1")
			if got := countRequests(s)["HEAD /v2/team/app/manifests/v1"]; got != tt.want || (err != nil) != (tt.times != 1) {
				t.Errorf("%d requests, %v", got, err)
			}
		})
	}
}

// TestTokenExpiresDuringCopy expires the token during a copy. Its layers are larger than the limit
// for login responses.
func TestTokenExpiresDuringCopy(t *testing.T) {
	s := startRegistry(t, testregistry.Options{Auth: testregistry.AuthBearer}, testregistry.Image{Layers: 5, LayerSize: 2 << 20})
	var blobs atomic.Int32
	ending := roundTripper(func(req *http.Request) (*http.Response, error) {
		if strings.Contains(req.URL.Path, "/blobs/") && blobs.Add(1) == 2 {
			s.ExpireTokens()
		}
		return http.DefaultTransport.RoundTrip(req)
	})
	c := New(keychain.New(newKeyring(t, providerUser{s.Addr(), "reader", canary.PasswordSecret, nil}), keychain.Options{Transport: ending}))
	if _, err := pullImage(t.Context(), newRepository(t, c, s.Addr()+"/team/app"), "v1"); err != nil {
		t.Error(err)
	}
	if countRequests(s)["reader 401"] == 0 {
		t.Errorf("no token has ended: %v", countRequests(s))
	}
}

// TestAllRefused verifies that the error has a message for each credential, and no password.
func TestAllRefused(t *testing.T) {
	forEachAuth(t, func(t *testing.T, scheme testregistry.Auth) {
		s := startRegistry(t, testregistry.Options{Auth: scheme}, smallImage)
		c := newClient(t, providerUser{s.Addr(), "reader", canary.PasswordSecret + "x", nil}, providerUser{s.Addr(), "nobody", canary.PasswordSecret, nil})
		_, err := pullImage(t.Context(), newRepository(t, c, s.Addr()+"/team/app"), "v1")
		var response *errcode.ErrorResponse
		if !errors.As(err, &response) || len(response.Errors) != 2 {
			t.Fatalf("got %v", err)
		}
		for i, want := range []string{`provider "p0", user "reader": .*HTTP 401`, `provider "p1", user "nobody": .*HTTP 40`} {
			if got := response.Errors[i].Message; !regexp.MustCompile("^" + want).MatchString(got) {
				t.Errorf("%q, want %q", got, want)
			}
		}
		canary.AssertAbsent(t, "the error", fmt.Sprintf("%v %+v", err, response))
	})
}

// TestProviderFails verifies that a provider's failure is returned as the error, and that no
// request is sent to the registry.
func TestProviderFails(t *testing.T) {
	s := startRegistry(t, testregistry.Options{}, smallImage)
	c := newClient(t, providerUser{s.Addr(), "", "", errors.New("no network")})
	_, err := pullImage(t.Context(), newRepository(t, c, s.Addr()+"/team/app"), "v1")
	if _, ok := errors.AsType[*regcred.LookupError](err); !ok || len(s.Requests()) > 0 {
		t.Errorf("got %v, %d requests", err, len(s.Requests()))
	}
}

// TestRegistry verifies that the ping and the catalog use the credential for the registry, and that
// a repository opened from the registry uses its own credential.
func TestRegistry(t *testing.T) {
	forEachAuth(t, func(t *testing.T, scheme testregistry.Auth) {
		s := startRegistry(t, testregistry.Options{Auth: scheme}, smallImage)
		reg, err := remote.NewRegistry(s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		reg.PlainHTTP = true
		reg.Client = newClient(t, providerUser{s.Addr(), "pusher", canary.PasswordSecret, nil}, providerUser{s.Addr() + "/team", "reader", canary.PasswordSecret, nil})
		if err := reg.Ping(t.Context()); err != nil {
			t.Error(err)
		}
		var names []string
		err = reg.Repositories(t.Context(), "", func(found []string) error {
			names = append(names, found...)
			return nil
		})
		if err != nil || len(names) != 1 {
			t.Errorf("catalog: %q, %v", names, err)
		}
		repo := must.Get(reg.Repository(t.Context(), "team/app"))(t)
		s.ResetLog()
		err = repo.Tags(t.Context(), "", func(tags []string) error { return nil })
		if got := countRequests(s); err != nil || got["reader 200"] == 0 || got["pusher 200"] > 0 {
			t.Errorf("tags: %v, %v", got, err)
		}
	})
}

// TestTransportOfAuthClient verifies that the Client can be the transport of oras-go's auth.Client.
// The auth.Client then sees no challenge and needs no credential.
func TestTransportOfAuthClient(t *testing.T) {
	forEachAuth(t, func(t *testing.T, scheme testregistry.Auth) {
		s := startRegistry(t, testregistry.Options{Auth: scheme}, smallImage)
		var agents []string
		counted := keychain.Options{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
			if regexp.MustCompile("^/v2/team/").MatchString(req.URL.Path) {
				agents = append(agents, req.UserAgent())
			}
			return http.DefaultTransport.RoundTrip(req)
		})}
		c := New(keychain.New(newKeyring(t, providerUser{s.Addr(), "nobody", canary.PasswordSecret, nil}, providerUser{s.Addr(), "reader", canary.PasswordSecret, nil}), counted))
		own := &auth.Client{
			Client: &http.Client{Transport: c},
			Header: http.Header{"User-Agent": {"Helm/4"}},
			Cache:  auth.NewCache(),
			Credential: func(context.Context, string) (auth.Credential, error) {
				t.Error("asked for a credential")
				return auth.EmptyCredential, nil
			},
		}
		repo := newRepository(t, own, s.Addr()+"/team/app")
		rc, err := repo.Resolve(t.Context(), "v1")
		if err != nil {
			t.Fatal(rc, err)
		}
		for _, a := range agents {
			if a != "Helm/4" {
				t.Errorf("signed %q", agents)
			}
		}
		s.SetUser("reader", "another")
		s.ExpireTokens()
		if _, err := repo.Resolve(t.Context(), "v1"); err == nil {
			t.Error("resolved with a wrong password")
		}
	})
}

// TestComparedWithAuthClient shows that oras-go's auth.Client fails with two credentials for one
// host, because it uses the wrong one. The Client succeeds.
func TestComparedWithAuthClient(t *testing.T) {
	s := startRegistry(t, testregistry.Options{Auth: testregistry.AuthBasic}, smallImage)
	basic := func(user string) string {
		return base64.StdEncoding.EncodeToString([]byte(user + ":" + canary.PasswordSecret))
	}
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	text := fmt.Sprintf(`{"auths": {"%s": {"auth": %q}, "%s/team": {"auth": %q}}}`, s.Addr(), basic("nobody"), s.Addr(), basic("reader"))
	must.Do(t, os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(text), 0o600))
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	theirs := &auth.Client{Client: &http.Client{}, Credential: credentials.Credential(store)}
	_, err = pullImage(t.Context(), newRepository(t, theirs, s.Addr()+"/team/app"), "v1")
	if got := countRequests(s); err == nil || got["reader 200"] > 0 || got["nobody 403"] == 0 {
		t.Errorf("theirs: %v, %v", got, err)
	}
	for name, users := range map[string][]providerUser{
		"by path":  {{s.Addr(), "nobody", canary.PasswordSecret, nil}, {s.Addr() + "/team", "reader", canary.PasswordSecret, nil}},
		"by trial": {{s.Addr(), "nobody", canary.PasswordSecret, nil}, {s.Addr(), "reader", canary.PasswordSecret, nil}},
	} {
		if _, err := pullImage(t.Context(), newRepository(t, newClient(t, users...), s.Addr()+"/team/app"), "v1"); err != nil {
			t.Errorf("ours, %s: %v", name, err)
		}
	}
}

// TestRequestOfResponse verifies that a response's Request contains no credential, because oras-go
// copies its headers to the next request.
func TestRequestOfResponse(t *testing.T) {
	forEachAuth(t, func(t *testing.T, scheme testregistry.Auth) {
		s := startRegistry(t, testregistry.Options{Auth: scheme}, smallImage)
		req := must.Get(http.NewRequestWithContext(t.Context(), "GET", s.URL()+"/v2/team/app/manifests/v1", nil))(t)
		resp := must.Get(newClient(t, providerUser{s.Addr(), "reader", canary.PasswordSecret, nil}).Do(req))(t)
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK || len(resp.Request.Header) > 0 {
			t.Errorf("status %d, %v", resp.StatusCode, resp.Request.Header)
		}
	})
}
