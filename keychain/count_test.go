// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
)

// TestConcurrentResolves verifies that 1,000 concurrent Resolve calls run the provider once if
// nothing is cached yet.
func TestConcurrentResolves(t *testing.T) {
	u := &providerUsers{only: 1}
	u.setUsers(providerUser{key: "registry.example", user: "good", password: canary.PasswordSecret})
	keys := New(u.newKeyring(t, "registry.example"), Options{})
	begin := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 1000 {
		ref := parseReference(t, fmt.Sprintf("registry.example/team/app%d", i))
		wg.Go(func() {
			<-begin
			a, err := keys.Resolve(ref.Context())
			if err != nil {
				t.Error(err)
				return
			}
			if cfg, err := authn.Authorization(t.Context(), a); err != nil || cfg.Username != "good" {
				t.Errorf("got %v", err)
			}
		})
	}
	close(begin)
	wg.Wait()
	if n := u.countUsers(); n != 1 {
		t.Errorf("%d execs", n)
	}
}

// newWarmKeychain returns a Keychain whose only provider has a cached response.
func newWarmKeychain(tb testing.TB) (*Keychain, name.Repository) {
	tb.Helper()
	u := &providerUsers{only: 1}
	u.setUsers(providerUser{key: "registry.example", user: "good", password: canary.PasswordSecret})
	keys := New(u.newKeyring(tb, "registry.example"), Options{})
	repo := parseReference(tb, "registry.example/team/app").Context()
	must.Get(keys.Resolve(repo))(tb)
	return keys, repo
}

// TestResolveAllocates limits the allocations of Resolve with a cached response.
func TestResolveAllocates(t *testing.T) {
	keys, repo := newWarmKeychain(t)
	n := testing.AllocsPerRun(1000, func() {
		if _, err := keys.Resolve(repo); err != nil {
			t.Fatal(err)
		}
	})
	if n > 8 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkResolve(b *testing.B) {
	keys, repo := newWarmKeychain(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := keys.Resolve(repo); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkResolveParallel measures Resolve in concurrent goroutines.
func BenchmarkResolveParallel(b *testing.B) {
	keys, repo := newWarmKeychain(b)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := keys.Resolve(repo); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestTransportNil verifies that a nil Options.Transport selects the default transport, and that
// any other transport gets all requests.
func TestTransportNil(t *testing.T) {
	f, ref := startProxy(t, testregistry.Options{Auth: testregistry.AuthBasic}, 1, nil)
	if err := pullLayers(t.Context(), ref, mustTransport(t, New(newGoodKeyring(t, f.host()), Options{}), ref.Context()).Wrapper()); err != nil {
		t.Error(err)
	}
	broken := errors.New("broken")
	tr := mustTransport(t, New(newGoodKeyring(t, f.host()), Options{Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
		for name := range req.Header {
			if strings.HasPrefix(name, "Regcred") {
				t.Errorf("%s is sent", name)
			}
		}
		return nil, broken
	})}), ref.Context())
	tr.CloseIdleConnections()
	if err := pullLayers(t.Context(), ref, tr.Wrapper()); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// TestNoCredential verifies that a lookup without a credential returns Anonymous, and that an
// invalid resource is an error.
func TestNoCredential(t *testing.T) {
	keys := New(newEmptyKeyring(t), Options{})
	if a, err := keys.Resolve(parseReference(t, "registry.example/x").Context()); err != nil || a != authn.Anonymous {
		t.Errorf("got %v, %v", a, err)
	}
	for _, r := range []authn.Resource{nil, resource{"registry/app", "registry"}, resource{"bad host", "bad host"}, resource{"registry.example:port", "registry.example:port"}} {
		if _, err := keys.Resolve(r); err == nil {
			t.Errorf("Resolve took %v", r)
		}
		if _, err := keys.Transport(r); err == nil {
			t.Errorf("Transport took %v", r)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	k := newGoodKeyring(t, "registry.example")
	if _, err := New(k, Options{For: regcred.Request{}}).ResolveContext(ctx, parseReference(t, "registry.example/x").Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
