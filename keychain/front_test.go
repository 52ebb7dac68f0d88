// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"bytes"
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
)

var discardLogger = log.New(io.Discard, "", 0)

// registryProxy is a proxy for a registry. It records requests, and answer can respond instead of the
// registry.
type registryProxy struct {
	*httptest.Server
	registry *testregistry.Server
	answer   func(http.ResponseWriter, *http.Request) bool // reports whether it sent the response

	mu   sync.Mutex
	seen []proxiedRequest
}

type proxiedRequest struct {
	*http.Request
	body string
}

func (f *registryProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	f.mu.Lock()
	f.seen = append(f.seen, proxiedRequest{r.Clone(r.Context()), string(body)})
	f.mu.Unlock()
	if f.answer == nil || !f.answer(w, r) {
		f.registry.ServeHTTP(w, r)
	}
}

// recordedRequests returns the recorded requests whose path contains a text.
func (f *registryProxy) recordedRequests(path string) (list []proxiedRequest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.seen {
		if strings.Contains(r.URL.Path, path) {
			list = append(list, r)
		}
	}
	return list
}

func (f *registryProxy) host() string { return f.Listener.Addr().String() }

// startProxy starts a proxy for a registry with the image team/app:v1, which the user "good" may pull.
func startProxy(t testing.TB, opts testregistry.Options, layers int, answer func(http.ResponseWriter, *http.Request) bool) (*registryProxy, name.Reference) {
	t.Helper()
	f := newUnstartedProxy(t, opts, layers, answer)
	f.Start()
	return f, parseReference(t, f.host()+"/team/app:v1")
}

// startTLSProxy is like serve but uses TLS. The certificate is valid for names such as
// registry.example.com, and the returned transport trusts it.
func startTLSProxy(t testing.TB, opts testregistry.Options, layers int, answer func(http.ResponseWriter, *http.Request) bool) (*registryProxy, *http.Transport) {
	t.Helper()
	f := newUnstartedProxy(t, opts, layers, answer)
	f.EnableHTTP2 = true
	f.StartTLS()
	return f, f.Client().Transport.(*http.Transport)
}

func newUnstartedProxy(t testing.TB, opts testregistry.Options, layers int, answer func(http.ResponseWriter, *http.Request) bool) *registryProxy {
	f := &registryProxy{answer: answer}
	f.Server = httptest.NewUnstartedServer(f)
	f.Config.ErrorLog = discardLogger
	f.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	t.Cleanup(f.Close)
	if opts.TokenServerURL == "" {
		opts.TokenServerURL = "http://" + f.host()
	}
	f.registry, _ = startRegistry(t, opts, layers)
	return f
}

func parseReference(t testing.TB, image string) name.Reference {
	t.Helper()
	return must.Get(name.ParseReference(image))(t)
}

// newForeignServer starts a server that fails the test if it receives a credential.
func newForeignServer(t testing.TB, answer http.HandlerFunc) *registryProxy {
	t.Helper()
	f := &registryProxy{answer: func(w http.ResponseWriter, r *http.Request) bool { answer(w, r); return true }}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	t.Cleanup(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, r := range f.seen {
			if r.Header.Get("Authorization") != "" {
				t.Errorf("%s %s: was shown a credential", r.Method, r.URL)
			}
			canary.AssertAbsent(t, r.URL.String(), r.body)
		}
	})
	return f
}

// newGoodKeyring returns a keyring with a single credential, which the registry accepts.
func newGoodKeyring(t testing.TB, hosts ...string) *regcred.Keyring {
	u := &providerUsers{}
	u.setUsers(providerUser{key: hosts[0], user: "good", password: canary.PasswordSecret})
	return u.newKeyring(t, hosts...)
}

func newTwoUserKeyring(t testing.TB, hosts ...string) *regcred.Keyring {
	u := &providerUsers{}
	u.setUsers(providerUser{key: hosts[0], user: "other", password: canary.PasswordSecret}, providerUser{key: hosts[0], user: "good", password: canary.PasswordSecret})
	return u.newKeyring(t, hosts...)
}
