// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/plugin"
)

// TestClosedUnderUse closes idle connections and the Keyring during 100 pulls. It verifies that
// errors contain no secret and that an accepted credential is still used afterwards.
func TestClosedUnderUse(t *testing.T) {
	for scheme, auth := range authSchemes {
		t.Run(scheme, func(t *testing.T) {
			s, ref := startRegistry(t, testregistry.Options{Auth: auth}, 3)
			k := newTwoUserKeyring(t, s.Addr())
			tr := mustTransport(t, New(k, Options{Transport: http.DefaultTransport.(*http.Transport).Clone()}), ref.Context())
			var wg, closers sync.WaitGroup
			done := make(chan struct{})
			closers.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-done:
						return
					default:
						tr.CloseIdleConnections()
						if n == 100 {
							k.Close()
						}
					}
				}
			})
			var ok atomic.Int32
			for range 100 {
				wg.Go(func() {
					switch err := pullLayers(t.Context(), ref, tr.Wrapper()); {
					case err == nil:
						ok.Add(1)
					default:
						canary.AssertAbsent(t, "the error", err.Error())
					}
				})
			}
			wg.Wait()
			close(done)
			closers.Wait()
			if err := pullLayers(t.Context(), ref, tr.Wrapper()); ok.Load() > 0 && err != nil {
				t.Errorf("an accepted credential is no longer sent: %v", err)
			}
			fresh := mustTransport(t, New(k, Options{}), ref.Context())
			if err := pullLayers(t.Context(), ref, fresh.Wrapper()); !errors.Is(err, regcred.ErrClosed) {
				t.Errorf("a transport of a closed Keyring: got %v", err)
			}
		})
	}
}

// TestLeaderCancelled cancels a request for whose ping, token or first response other requests
// wait. It verifies that the other requests do not fail.
func TestLeaderCancelled(t *testing.T) {
	for _, at := range []string{"/v2/", "/token", "/manifests/"} {
		t.Run(at, func(t *testing.T) {
			asked := make(chan struct{})
			var once sync.Once
			f, ref := startProxy(t, testregistry.Options{Auth: testregistry.AuthBearer}, 1, func(w http.ResponseWriter, r *http.Request) bool {
				held := r.URL.Path == at || at == "/manifests/" && strings.Contains(r.URL.Path, at)
				if held {
					held = false
					once.Do(func() { held = true })
				}
				if held {
					close(asked)
					<-r.Context().Done()
				}
				return held
			})
			tr := mustTransport(t, New(newGoodKeyring(t, f.host()), Options{}), ref.Context())
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() {
				if err := pullLayers(ctx, ref, tr.Wrapper()); !errors.Is(err, context.Canceled) {
					t.Errorf("the one that was cancelled: %v", err)
				}
			})
			<-asked
			for range 10 {
				wg.Go(func() {
					if err := pullLayers(t.Context(), ref, tr.Wrapper()); err != nil {
						t.Error(err)
					}
				})
			}
			// A waiting request can also be canceled.
			waiting, stop := context.WithCancel(t.Context())
			stop()
			if err := pullLayers(waiting, ref, tr.Wrapper()); !errors.Is(err, context.Canceled) {
				t.Errorf("one that waited: %v", err)
			}
			cancel()
			wg.Wait()
		})
	}
}

// TestSharedCall verifies that one caller runs the function and that the other callers get its
// error. They get no error if the context of the running caller ended.
func TestSharedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f sharedCall
		broken := errors.New("broken")
		var ran, failed atomic.Int32
		for range 10 {
			go func() {
				did, err := f.doOnce(t.Context(), func() error { time.Sleep(30 * time.Second); return broken })
				if did {
					ran.Add(1)
				}
				if err == broken {
					failed.Add(1)
				}
			}()
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if ran.Load() != 1 || failed.Load() != 10 {
			t.Errorf("%d ran and %d failed after one time's wait, want 1 and 10", ran.Load(), failed.Load())
		}

		ctx, cancel := context.WithCancel(t.Context())
		go f.doOnce(ctx, func() error { <-ctx.Done(); return ctx.Err() })
		synctest.Wait()
		got := make(chan error)
		go func() { _, err := f.doOnce(t.Context(), nil); got <- err }()
		synctest.Wait()
		cancel()
		if err := <-got; err != nil {
			t.Errorf("another's cancellation: got %v", err)
		}
	})
}

// TestSilentServer verifies that 20 concurrent requests to a server that does not respond take no
// longer than one request.
func TestSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &providerUsers{}
		u.setUsers(providerUser{key: "registry.example", user: "good", password: canary.PasswordSecret})
		k := u.newKeyring(t, "registry.example")
		defer k.Close()
		silent := hangingTransport{}
		ref := parseReference(t, "registry.example/team/app:v1")
		tr := mustTransport(t, New(k, Options{Transport: silent}), ref.Context())
		began := time.Now()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if err := pullLayers(t.Context(), ref, tr.Wrapper()); err == nil || !strings.Contains(err.Error(), "idle for too long") {
					t.Errorf("got %v", err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took > time.Minute {
			t.Errorf("took %s", took)
		}
	})
}

// hangingTransport is a transport to a server that never responds.
type hangingTransport struct{}

func (hangingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, context.Cause(req.Context())
}

// TestSlowLookup verifies that 20 concurrent requests share one lookup that hangs until its
// timeout.
func TestSlowLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, err := config.Parse("test.yaml", []byte("apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- name: slow\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  defaultCacheDuration: 1h\n  matchImages: [registry.example]\n"))
		if err != nil {
			t.Fatal(err)
		}
		var asks atomic.Int32
		k, err := regcred.New(cfg, regcred.Options{InProcess: map[string]plugin.Provider{"slow": plugin.ProviderFunc(func(ctx context.Context, _ *plugin.Request) (*plugin.Response, error) {
			asks.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		})}})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		ref := parseReference(t, "registry.example/team/app:v1")
		tr := mustTransport(t, New(k, Options{Transport: hangingTransport{}}), ref.Context())
		began := time.Now()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if err := pullLayers(t.Context(), ref, tr.Wrapper()); err == nil {
					t.Error("pulled")
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took > 2*time.Minute || asks.Load() != 1 {
			t.Errorf("took %s, and asked %d times", took, asks.Load())
		}
	})
}

// TestBodyBreaksOff verifies that the reader of a truncated body gets an error.
func TestBodyBreaksOff(t *testing.T) {
	s, ref := startRegistry(t, testregistry.Options{Auth: testregistry.AuthBasic}, 1)
	tr := mustTransport(t, New(newGoodKeyring(t, s.Addr()), Options{}), ref.Context())
	img := must.Get(remote.Image(ref, remote.WithTransport(tr.Wrapper())))(t)
	must.Get(img.Manifest())(t)
	s.Inject(testregistry.Fault{Kind: testregistry.FaultTruncate, Endpoint: testregistry.EndpointBlobs, Bytes: 1000})
	layers, _ := img.Layers()
	rc := must.Get(layers[0].Compressed())(t)
	defer rc.Close()
	if n, err := io.Copy(io.Discard, rc); !errors.Is(err, io.ErrUnexpectedEOF) || n > 1000 {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestPasswordChangeDuringRequests changes the password and then sends 30 concurrent requests. It
// verifies that all of them succeed.
func TestPasswordChangeDuringRequests(t *testing.T) {
	for scheme, auth := range authSchemes {
		t.Run(scheme, func(t *testing.T) {
			s, ref := startRegistry(t, testregistry.Options{Auth: auth}, 3)
			u := &providerUsers{}
			u.setUsers(providerUser{key: s.Addr(), user: "good", password: canary.PasswordSecret})
			tr := mustTransport(t, New(u.newKeyring(t, s.Addr()), Options{}), ref.Context())
			must.Do(t, pullLayers(t.Context(), ref, tr.Wrapper()))
			s.SetUser("good", canary.PasswordSecret+"2")
			s.ExpireTokens()
			u.setUsers(providerUser{key: s.Addr(), user: "good", password: canary.PasswordSecret + "2"})
			var wg sync.WaitGroup
			for range 30 {
				wg.Go(func() {
					if err := pullLayers(t.Context(), ref, tr.Wrapper()); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		})
	}
}
