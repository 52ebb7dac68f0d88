// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package orasclient

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/keychain"
	"github.com/regcred/regcred/plugin"
)

// providerUser is a provider's credential or error, and the provider's pattern.
type providerUser struct {
	image          string // the provider's pattern and auth key
	name, password string
	err            error
}

// newKeyring returns a keyring with one provider for each user, in this order.
func newKeyring(t testing.TB, users ...providerUser) *regcred.Keyring {
	t.Helper()
	var text strings.Builder
	fmt.Fprintln(&text, "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:")
	in := map[string]plugin.Provider{}
	for i, u := range users {
		provider := fmt.Sprintf("p%d", i)
		fmt.Fprintf(&text, "- name: %s\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  defaultCacheDuration: 1h\n  matchImages: [%q]\n", provider, u.image)
		in[provider] = plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) {
			if u.err != nil {
				return nil, u.err
			}
			return &plugin.Response{CacheKeyType: plugin.CacheRegistry, Auth: map[string]plugin.AuthConfig{
				u.image: {Username: u.name, Password: plugin.NewSecret(u.password)},
			}}, nil
		})
	}
	cfg := must.Get(config.Parse("test.yaml", []byte(text.String())))(t)
	k := must.Get(regcred.New(cfg, regcred.Options{InProcess: in}))(t)
	t.Cleanup(func() { k.Close() })
	return k
}

func newClient(t testing.TB, users ...providerUser) *Client {
	t.Helper()
	return New(keychain.New(newKeyring(t, users...), keychain.Options{}))
}

// startRegistry starts a registry with the image team/app:v1. All users have the same password. By default,
// "reader" may pull everything and "pusher" may also push everything.
func startRegistry(t testing.TB, opts testregistry.Options, image testregistry.Image) *testregistry.Server {
	t.Helper()
	opts.Users = map[string]string{"reader": canary.PasswordSecret, "pusher": canary.PasswordSecret, "nobody": canary.PasswordSecret}
	if opts.Rules == nil {
		opts.Rules = []testregistry.Rule{{User: "reader", Pull: true}, {User: "pusher", Pull: true, Push: true}}
	}
	s := must.Get(testregistry.New(opts))(t)
	t.Cleanup(func() { s.Close() })
	must.Get(s.Push("team/app", "v1", image))(t)
	return s
}

// forEachAuth runs a test with both authentication methods.
func forEachAuth(t *testing.T, f func(t *testing.T, auth testregistry.Auth)) {
	t.Run("basic", func(t *testing.T) { f(t, testregistry.AuthBasic) })
	t.Run("bearer", func(t *testing.T) { f(t, testregistry.AuthBearer) })
}

// newRepository returns a repository over plain HTTP.
func newRepository(t testing.TB, c remote.Client, reference string) *remote.Repository {
	t.Helper()
	repo := must.Get(remote.NewRepository(reference))(t)
	repo.Client, repo.PlainHTTP = c, true
	return repo
}

// pullImage copies an image from a repository into memory, and returns its digest.
func pullImage(ctx context.Context, repo *remote.Repository, tag string) (string, error) {
	desc, err := oras.Copy(ctx, repo, tag, memory.New(), tag, oras.DefaultCopyOptions)
	return string(desc.Digest), err
}

// countRequests counts the requests by user and status ("reader 401"), by method and path ("GET /path"),
// and as "anonymous tokens".
func countRequests(s *testregistry.Server) map[string]int {
	counts := map[string]int{}
	for _, r := range s.Requests() {
		counts[fmt.Sprintf("%s %d", r.User, r.Status)]++
		counts[r.Method+" "+r.Path]++
		if r.Path == "/token" && r.User == "" {
			counts["anonymous tokens"]++
		}
	}
	return counts
}

var smallImage = testregistry.Image{}

// roundTripper is a function that implements [http.RoundTripper].
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
