// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package orasclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testenv"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/keychain"
)

// TestRedirects verifies that a host to which a blob is redirected gets no credential, even if the
// Keyring has one for this host.
func TestRedirects(t *testing.T) {
	forEachAuth(t, func(t *testing.T, scheme testregistry.Auth) {
		store := startRegistry(t, testregistry.Options{Rules: []testregistry.Rule{{User: testregistry.Anonymous, Pull: true}}}, smallImage)
		s := startRegistry(t, testregistry.Options{Auth: scheme, RedirectBlobs: store.URL()}, smallImage)
		c := newClient(t, providerUser{s.Addr(), "reader", canary.PasswordSecret, nil}, providerUser{store.Addr(), "reader", canary.PasswordSecret, nil})
		must.Get(pullImage(t.Context(), newRepository(t, c, s.Addr()+"/team/app"), "v1"))(t)
		if len(store.Requests()) == 0 {
			t.Error("nothing came from there")
		}
		for _, r := range store.Requests() {
			if r.Scheme != "" {
				t.Errorf("%+v", r)
			}
		}
	})
}

// TestSignatures verifies that errors after a redirect do not contain the URL's signature.
func TestSignatures(t *testing.T) {
	denies := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer denies.Close()
	for _, to := range []string{"http://" + testenv.FreeAddr(t), denies.URL} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/manifests/") {
				http.Redirect(w, r, to+"/blob?X-Signature="+canary.TokenSecret, http.StatusTemporaryRedirect)
			}
		}))
		defer s.Close()
		host := strings.TrimPrefix(s.URL, "http://")
		_, err := newRepository(t, newClient(t, providerUser{host, "reader", canary.PasswordSecret, nil}), host+"/team/app").Resolve(t.Context(), "v1")
		if err == nil || !strings.Contains(err.Error(), to+"/blob?[redacted]") || strings.Contains(err.Error(), canary.TokenSecret) {
			t.Errorf("got %v", err)
		}
	}
}

// TestRedirectLoop verifies that redirect loops end.
func TestRedirectLoop(t *testing.T) {
	var n atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v2/" {
			n.Add(1)
			http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		}
	}))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	_, err := newRepository(t, newClient(t, providerUser{host, "reader", canary.PasswordSecret, nil}), host+"/team/app").Resolve(t.Context(), "v1")
	if err == nil || n.Load() > 10 {
		t.Errorf("%d requests, %v", n.Load(), err)
	}
}

// TestRedirectToOtherRepository verifies that a request redirected to another
// repository of the registry does not use that repository's credential.
func TestRedirectToOtherRepository(t *testing.T) {
	var sent sync.Map
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, _, ok := r.BasicAuth(); ok {
			sent.Store(name+" "+r.URL.Path, true)
		}
		switch {
		case r.Header.Get("Authorization") == "":
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasPrefix(r.URL.Path, "/v2/team/"):
			http.Redirect(w, r, "/v2/other/app/manifests/v1", http.StatusTemporaryRedirect)
		}
	}))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	c := newClient(t, providerUser{host + "/team", "reader", canary.PasswordSecret, nil}, providerUser{host + "/other", "pusher", canary.PasswordSecret, nil})
	_, err := newRepository(t, c, host+"/team/app").Resolve(t.Context(), "v1")
	if err == nil || !strings.Contains(err.Error(), "for another") {
		t.Errorf("got %v", err)
	}
	sent.Range(func(k, _ any) bool {
		if k != "reader /v2/team/app/manifests/v1" {
			t.Errorf("sent: %s", k)
		}
		return true
	})
}

// TestHub copies an image between repositories of Docker Hub. Only its API hosts and its token
// server are called. The credential is not used for another host of docker.io.
func TestHub(t *testing.T) {
	forEachAuth(t, func(t *testing.T, scheme testregistry.Auth) {
		s := startRegistry(t, testregistry.Options{Auth: scheme, TokenServerURL: "https://auth.docker.io"}, smallImage)
		front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.ServeHTTP(&absoluteLocationWriter{w, r.Host}, r)
		}))
		front.Config.ErrorLog = log.New(io.Discard, "", 0) // do not log unused connections
		front.StartTLS()
		defer front.Close()
		var hosts sync.Map
		tr := front.Client().Transport.(*http.Transport)
		tr.TLSClientConfig.InsecureSkipVerify = true
		tr.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			hosts.Store(address, true)
			return (&net.Dialer{}).DialContext(ctx, network, front.Listener.Addr().String())
		}
		c := New(keychain.New(newKeyring(t, providerUser{"docker.io", "pusher", canary.PasswordSecret, nil}), keychain.Options{Transport: tr}))
		from, to := newRepository(t, c, "docker.io/team/app"), newRepository(t, c, "docker.io/copies/app")
		from.PlainHTTP, to.PlainHTTP = false, false
		if _, err := oras.Copy(t.Context(), from, "v1", to, "v1", oras.DefaultCopyOptions); err != nil {
			t.Error(err)
		}
		hosts.Range(func(k, _ any) bool {
			if h := k.(string); h != "index.docker.io:443" && h != "registry-1.docker.io:443" && h != "auth.docker.io:443" {
				t.Errorf("asked %s", h)
			}
			return true
		})
		elsewhere := newRepository(t, c, "registry-2.docker.io/team/app")
		elsewhere.PlainHTTP = false
		s.ResetLog()
		if _, err := elsewhere.Resolve(t.Context(), "v1"); err == nil || countRequests(s)["pusher 200"] > 0 {
			t.Errorf("another host: %v, %v", err, countRequests(s))
		}
	})
}

// absoluteLocationWriter is a ResponseWriter that makes upload URLs absolute.
type absoluteLocationWriter struct {
	http.ResponseWriter
	host string
}

func (a *absoluteLocationWriter) WriteHeader(status int) {
	if l := a.Header().Get("Location"); strings.HasPrefix(l, "/") {
		a.Header().Set("Location", "https://"+a.host+l)
	}
	a.ResponseWriter.WriteHeader(status)
}

// TestPlainHTTP verifies that plain HTTP to a registry outside loopback requires Insecure in the
// Keychain's Options.
func TestPlainHTTP(t *testing.T) {
	s := startRegistry(t, testregistry.Options{Auth: testregistry.AuthBasic}, smallImage)
	tr := http.DefaultTransport.(*http.Transport).Clone()
	tr.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, s.Addr())
	}
	k := newKeyring(t, providerUser{"registry.example:5000", "reader", canary.PasswordSecret, nil})
	for _, insecure := range []bool{false, true} {
		s.ResetLog()
		c := New(keychain.New(k, keychain.Options{Transport: tr, Insecure: insecure}))
		_, err := pullImage(t.Context(), newRepository(t, c, "registry.example:5000/team/app"), "v1")
		if insecure == (err != nil) {
			t.Errorf("insecure %t: %v", insecure, err)
		}
		if got := countRequests(s); !insecure && len(got) > 0 {
			t.Errorf("sent over plain HTTP: %v", got)
		}
	}
}

// TestBareHost verifies that a registry name without a dot is rejected, and not used as a Docker
// Hub namespace.
func TestBareHost(t *testing.T) {
	asked := roundTripper(func(req *http.Request) (*http.Response, error) {
		t.Errorf("asked %s", req.URL)
		return nil, errors.New("no network")
	})
	c := New(keychain.New(newKeyring(t, providerUser{"docker.io", "reader", canary.PasswordSecret, nil}), keychain.Options{Transport: asked}))
	if _, err := newRepository(t, c, "registry/team/app").Resolve(t.Context(), "v1"); err == nil || !strings.Contains(err.Error(), "a port or a domain") {
		t.Errorf("got %v", err)
	}
}

// TestConcurrent sends requests to many repositories from 100 goroutines, and closes the Keyring
// meanwhile.
func TestConcurrent(t *testing.T) {
	s := startRegistry(t, testregistry.Options{Auth: testregistry.AuthBasic}, smallImage)
	k := newKeyring(t, providerUser{s.Addr(), "nobody", canary.PasswordSecret, nil}, providerUser{s.Addr(), "reader", canary.PasswordSecret, nil})
	c := New(keychain.New(k, keychain.Options{}))
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			for n := range 15 {
				name := "team/app"
				if i%2 == 0 {
					name = fmt.Sprintf("team/app%d", i*100+n)
				}
				_, err := newRepository(t, c, s.Addr()+"/"+name).Resolve(t.Context(), "v1")
				if name == "team/app" && err != nil && !errors.Is(err, regcred.ErrClosed) {
					t.Error(err)
				}
				if i == 50 && n == 5 {
					k.Close()
				}
			}
		})
	}
	wg.Wait()
	if n := len(c.transports.byTarget); n > maxTransports {
		t.Errorf("%d are kept", n)
	}
}

// TestCachedTransports verifies that the cache evicts the least recently used transport.
func TestCachedTransports(t *testing.T) {
	c := newClient(t, providerUser{"registry.example", "reader", canary.PasswordSecret, nil})
	ask := func(name string) *keychain.Transport {
		req := must.Get(http.NewRequest("GET", "https://registry.example/v2/"+name+"/manifests/v1", nil))(t)
		return must.Get(c.transports.forRequest(req))(t)
	}
	first, second := ask("first"), ask("second")
	for i := range maxTransports {
		ask("first")
		ask(fmt.Sprintf("app%d", i))
	}
	if len(c.transports.byTarget) != maxTransports || ask("first") != first || ask("second") == second {
		t.Errorf("%d are kept", len(c.transports.byTarget))
	}
}

// TestCancelled verifies that canceling the first request does not fail the requests that wait for
// its login.
func TestCancelled(t *testing.T) {
	s := startRegistry(t, testregistry.Options{Auth: testregistry.AuthBearer}, smallImage)
	hangs := s.Inject(testregistry.Fault{Kind: testregistry.FaultSlow, Endpoint: testregistry.EndpointToken, Delay: time.Hour})
	c := newClient(t, providerUser{s.Addr(), "reader", canary.PasswordSecret, nil})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	repo := func() *remote.Repository { return newRepository(t, c, s.Addr()+"/team/app") }
	gone := make(chan error, 1)
	go func() {
		_, err := repo().Resolve(ctx, "v1")
		gone <- err
	}()
	for hangs.Hits() == 0 {
		runtime.Gosched()
	}
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if _, err := repo().Resolve(t.Context(), "v1"); err != nil {
				t.Error(err)
			}
		})
	}
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	wg.Wait()
}
