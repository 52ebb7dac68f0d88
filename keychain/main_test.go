// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/plugin"
)

// providerUsers holds the credential that each provider returns, in the order of the providers. A test can
// change the credentials.
type providerUsers struct {
	uncached bool          // the Keyring caches no response
	wait     chan struct{} // if set, providers wait until it is closed
	only     int           // number of providers; 0 means 3

	mu    sync.Mutex
	pairs []providerUser
	execs int
}

type providerUser struct {
	key, user, password string
	err                 error
}

func (u *providerUsers) setUsers(pairs ...providerUser) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pairs = pairs
}

func (u *providerUsers) countUsers() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.execs
}

func (u *providerUsers) newResponse(n int, cached time.Duration) (*plugin.Response, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.execs++
	resp := &plugin.Response{CacheKeyType: plugin.CacheRegistry, CacheDuration: &cached, Auth: map[string]plugin.AuthConfig{}}
	if n >= len(u.pairs) {
		return resp, nil
	}
	p := u.pairs[n]
	if p.err != nil {
		return nil, p.err
	}
	resp.Auth[p.key] = plugin.AuthConfig{Username: p.user, Password: plugin.NewSecret(p.password)}
	return resp, nil
}

// newKeyring returns a keyring with three providers for the hosts, or u.only providers if set. Each
// provider returns one credential.
func (u *providerUsers) newKeyring(t testing.TB, hosts ...string) *regcred.Keyring {
	t.Helper()
	var text strings.Builder
	fmt.Fprintln(&text, "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:")
	in := map[string]plugin.Provider{}
	for n := range cmp.Or(u.only, 3) {
		provider := fmt.Sprintf("p%d", n)
		fmt.Fprintf(&text, "- name: %s\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  defaultCacheDuration: 1h\n  matchImages: [%s]\n", provider, `"`+strings.Join(hosts, `","`)+`"`)
		in[provider] = plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) {
			if u.wait != nil {
				<-u.wait
			}
			if u.uncached {
				return u.newResponse(n, 0)
			}
			return u.newResponse(n, time.Hour)
		})
	}
	cfg := must.Get(config.Parse("test.yaml", []byte(text.String())))(t)
	k := must.Get(regcred.New(cfg, regcred.Options{InProcess: in}))(t)
	t.Cleanup(func() { k.Close() })
	return k
}

// startRegistry starts a registry with the image team/app:v1. Unless opts has rules, only the user "good"
// may pull it.
func startRegistry(t testing.TB, opts testregistry.Options, layers int) (*testregistry.Server, name.Reference) {
	t.Helper()
	opts.Users = map[string]string{"good": canary.PasswordSecret, "other": canary.PasswordSecret}
	if opts.Rules == nil {
		opts.Rules = []testregistry.Rule{{User: "good", Prefix: "team", Pull: true, Push: true}}
	}
	s := must.Get(testregistry.New(opts))(t)
	t.Cleanup(func() { s.Close() })
	must.Get(s.Push("team/app", "v1", testregistry.Image{Layers: layers}))(t)
	ref := must.Get(name.ParseReference(s.Addr() + "/team/app:v1"))(t)
	return s, ref
}

// pullLayers pulls every layer of an image.
func pullLayers(ctx context.Context, ref name.Reference, rt http.RoundTripper) error {
	img, err := remote.Image(ref, remote.WithTransport(rt), remote.WithContext(ctx))
	if err != nil {
		return err
	}
	return readLayers(img)
}

// openLayers requests each layer of an image. It calls before with the layer's index before each
// request.
func openLayers(t *testing.T, ref name.Reference, rt http.RoundTripper, before func(i int)) {
	t.Helper()
	img := must.Get(remote.Image(ref, remote.WithTransport(rt)))(t)
	layers := must.Get(img.Layers())(t)
	for i, l := range layers {
		before(i)
		rc, err := l.Compressed()
		if err != nil {
			t.Fatalf("layer %d: %v", i, err)
		}
		rc.Close()
	}
}

func readLayers(img v1.Image) error {
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	var errs []error
	for _, l := range layers {
		rc, err := l.Compressed()
		if err == nil {
			_, err = io.Copy(io.Discard, rc)
			rc.Close()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func mustTransport(t testing.TB, k *Keychain, resource interface {
	String() string
	RegistryStr() string
}) *Transport {
	t.Helper()
	return must.Get(k.Transport(resource))(t)
}

// countLogins counts the pings, the requests for anonymous tokens, and each user's rejected
// passwords.
func countLogins(s *testregistry.Server) (pings, anonymousTokens int, refused map[string]int) {
	refused = map[string]int{}
	for _, r := range s.Requests() {
		switch {
		case r.Path == "/v2/":
			pings++
		case r.Path == "/token" && r.Scheme == "":
			anonymousTokens++
		}
		if r.Status == http.StatusUnauthorized && r.Scheme == "Basic" {
			refused[r.User]++
		}
	}
	return pings, anonymousTokens, refused
}
