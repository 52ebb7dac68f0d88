// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
)

// resource is an [authn.Resource] with arbitrary names.
type resource struct{ name, registry string }

func (r resource) String() string      { return r.name }
func (r resource) RegistryStr() string { return r.registry }

func TestQuestion(t *testing.T) {
	const wrong = "-"
	for _, tt := range []struct {
		resource        authn.Resource
		image, registry string
	}{
		{resource{"registry.example/team/app", "registry.example"}, "registry.example/team/app", ""},
		{resource{"registry.example", "registry.example"}, "", "registry.example"},
		{resource{"registry.example:443/team/app", "registry.example:443"}, "registry.example:443/team/app", ""},
		{resource{"[::1]:5000/team/app", "[::1]:5000"}, "[::1]:5000/team/app", ""},
		{resource{"REGISTRY.example/team/app", "REGISTRY.example"}, "REGISTRY.example/team/app", ""},
		{resource{"localhost/app", "localhost"}, "localhost/app", ""},
		{resource{"index.docker.io/library/x", "index.docker.io"}, "docker.io/library/x", ""},
		{resource{"docker.io/library/x", "index.docker.io"}, "docker.io/library/x", ""},
		{resource{"docker.io/library/x", "docker.io"}, "docker.io/library/x", ""},
		{resource{"registry-1.docker.io/library/x", "registry-1.docker.io"}, "registry-1.docker.io/library/x", ""},
		{resource{"index.docker.io", "index.docker.io"}, "", "docker.io"},
		{resource{"registry-1.docker.io", "registry-1.docker.io"}, "", "docker.io"},
		{resource{"registry.example/team/app:v1", "registry.example"}, "registry.example/team/app", ""},

		{resource{"registry/app", "registry"}, wrong, ""}, // the kubelet interprets it as docker.io/registry/app
		{resource{"other.example/app", "registry.example"}, wrong, ""},
		{resource{"registry.example:5000/app", "registry.example"}, wrong, ""},
		{resource{"registry.example/app", "registry.example:443"}, wrong, ""},
		{resource{"docker.io/library/x", "registry-1.docker.io"}, wrong, ""},
		{resource{"docker.io/library/x", "registry.example"}, wrong, ""},
		{resource{"", ""}, wrong, ""},
		{resource{"", "registry.example"}, wrong, ""},
		{resource{"registry.example/team/../app", "registry.example"}, wrong, ""},
		{resource{"registry.example/", "registry.example"}, wrong, ""},
		{resource{"https://registry.example", "https://registry.example"}, wrong, ""},
		{resource{"registry.example/a b", "registry.example"}, wrong, ""},
		{nil, wrong, ""},
	} {
		req, err := New(nil, Options{}).newLookupRequest(tt.resource)
		if tt.image == wrong {
			if err == nil {
				t.Errorf("%+v: got %+v", tt.resource, req)
			}
			continue
		}
		if err != nil || req.Image != tt.image || req.Registry != tt.registry {
			t.Errorf("%+v: got %q, %q, %v", tt.resource, req.Image, req.Registry, err)
		}
	}
	for _, full := range []regcred.Request{{Image: "x"}, {Registry: "x"}} {
		if _, err := New(nil, Options{For: full}).Transport(resource{"registry.example", "registry.example"}); err == nil {
			t.Errorf("%+v was taken", full)
		}
	}
}

// FuzzRequest verifies that the lookup request is for the resource's own registry.
func FuzzRequest(f *testing.F) {
	for _, seed := range [][2]string{
		{"registry.example/team/app", "registry.example"}, {"index.docker.io/library/x", "index.docker.io"}, {"registry/app", "registry"},
		{"registry.example", "registry.example"}, {"[::1]:5000/x", "[::1]:5000"}, {"a/b@sha256:" + strings.Repeat("0", 64), "a"}, {"localhost/x:y", "localhost"},
	} {
		f.Add(seed[0], seed[1])
	}
	hub := map[string]bool{"index.docker.io": true, "docker.io": true}
	f.Fuzz(func(t *testing.T, named, registry string) {
		req, err := New(nil, Options{}).newLookupRequest(resource{named, registry})
		if err != nil {
			return
		}
		host, _, _ := strings.Cut(req.Image+req.Registry, "/")
		if host != registry && !(hub[registry] && host == "docker.io") && registry != "registry-1.docker.io" {
			t.Errorf("%q of %q is asked of %q", named, registry, host)
		}
		if tr, err := New(nil, Options{}).Transport(resource{named, registry}); err == nil && req.Image != "" && !strings.HasSuffix(req.Image, "/"+tr.repo) {
			t.Errorf("%q: the transport is for %q", named, tr.repo)
		}
	})
}

// transportDialing returns a copy of rt that connects to the same address for every host.
func transportDialing(to string, rt *http.Transport) *http.Transport {
	rt = rt.Clone()
	rt.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, to)
	}
	return rt
}

// TestTLS verifies pulls over HTTP/2 from a registry with a private CA. The name may have
// upper-case letters and a port.
func TestTLS(t *testing.T) {
	for scheme, auth := range authSchemes {
		for _, host := range []string{"registry.example.com", "REGISTRY.example.com", "registry.example.com:443", "registry.example.com:5000"} {
			t.Run(scheme+", "+host, func(t *testing.T) {
				f, rt := startTLSProxy(t, testregistry.Options{Auth: auth, TokenServerURL: "https://auth.example.com"}, 2, nil)
				ref := parseReference(t, host+"/team/app:v1")
				opts := Options{Transport: transportDialing(f.host(), rt)}
				if err := pullLayers(t.Context(), ref, mustTransport(t, New(newTwoUserKeyring(t, host), opts), ref.Context()).Wrapper()); err != nil {
					t.Error(err)
				}
				for _, r := range f.recordedRequests("") {
					if r.ProtoMajor != 2 {
						t.Errorf("%s %s came by %s", r.Method, r.URL, r.Proto)
					}
				}
			})
		}
	}
	f, _ := startTLSProxy(t, testregistry.Options{Auth: testregistry.AuthBasic}, 1, nil)
	ref := parseReference(t, "registry.example.com/team/app:v1")
	opts := Options{Transport: transportDialing(f.host(), &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}})}
	if err := pullLayers(t.Context(), ref, mustTransport(t, New(newGoodKeyring(t, "registry.example.com"), opts), ref.Context()).Wrapper()); err == nil {
		t.Error("an unknown authority was trusted")
	}
}

// TestPortOfRequests verifies that the credential is sent if only the registry's name or only the
// request's URL contains port 443. It is also sent if they differ in case.
func TestPortOfRequests(t *testing.T) {
	for _, tt := range []struct{ name, request string }{{"registry.example.com", "registry.example.com:443"}, {"registry.example.com:443", "registry.example.com"}, {"registry.example.com", "Registry.Example.com"}} {
		for scheme, auth := range authSchemes {
			f, rt := startTLSProxy(t, testregistry.Options{Auth: auth, TokenServerURL: "https://auth.example.com"}, 1, nil)
			ref := parseReference(t, tt.name+"/team/app:v1")
			tr := mustTransport(t, New(newGoodKeyring(t, tt.name), Options{Transport: transportDialing(f.host(), rt)}), ref.Context())
			req, _ := http.NewRequestWithContext(t.Context(), "GET", "https://"+tt.request+"/v2/team/app/manifests/v1", nil)
			resp, err := tr.RoundTrip(req)
			if err != nil || resp.StatusCode != 200 {
				t.Errorf("%s, %+v: got %v, %v", scheme, tt, resp, err)
			}
		}
	}
}

// TestHub verifies that one transport sends the credential to all API hosts of Docker Hub.
func TestHub(t *testing.T) {
	f, rt := startTLSProxy(t, testregistry.Options{Auth: testregistry.AuthBearer, TokenServerURL: "https://auth.docker.io", Rules: []testregistry.Rule{{User: "good", Pull: true}}}, 1, nil)
	must.Get(f.registry.Push("library/x", "v1", testregistry.Image{}))(t)
	rt = transportDialing(f.host(), rt)
	rt.TLSClientConfig.InsecureSkipVerify = true // the test server's certificate is not Docker's
	keys := New(newGoodKeyring(t, "docker.io"), Options{Transport: rt})
	ref := parseReference(t, "x:v1")
	tr := mustTransport(t, keys, ref.Context())
	if err := pullLayers(t.Context(), ref, tr.Wrapper()); err != nil {
		t.Error(err)
	}
	for _, host := range []string{"index.docker.io", "registry-1.docker.io"} {
		for _, written := range []string{"", host} {
			req, _ := http.NewRequestWithContext(t.Context(), "GET", "https://"+host+"/v2/library/x/manifests/v1", nil)
			req.Host = written
			resp, err := tr.RoundTrip(req)
			if err != nil || resp.StatusCode != 200 {
				t.Errorf("%s: got %v, %v", host, resp, err)
			}
		}
	}
}

// TestIPv6 verifies a registry with an IPv6 address as its name.
func TestIPv6(t *testing.T) {
	for scheme, auth := range authSchemes {
		t.Run(scheme, func(t *testing.T) {
			ln, err := net.Listen("tcp", "[::1]:0")
			if err != nil {
				t.Skipf("no IPv6 on loopback here: %v", err)
			}
			host := ln.Addr().String()
			s, _ := startRegistry(t, testregistry.Options{Auth: auth, TokenServerURL: "http://" + host}, 1)
			server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute, ErrorLog: discardLogger}
			go server.Serve(ln)
			t.Cleanup(func() { server.Close() })
			ref := parseReference(t, host+"/team/app:v1")
			if err := pullLayers(t.Context(), ref, mustTransport(t, New(newTwoUserKeyring(t, host), Options{}), ref.Context()).Wrapper()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestInsecure verifies that plain HTTP to a registry outside loopback requires Options.Insecure.
func TestInsecure(t *testing.T) {
	f, _ := startProxy(t, testregistry.Options{Auth: testregistry.AuthBasic}, 1, nil)
	rt := transportDialing(f.host(), http.DefaultTransport.(*http.Transport))
	ref := parseReference(t, "registry.example.com/team/app:v1")
	k := newGoodKeyring(t, "registry.example.com")
	for _, insecure := range []bool{false, true} {
		err := pullLayers(t.Context(), ref, mustTransport(t, New(k, Options{Transport: rt, Insecure: insecure}), ref.Context()).Wrapper())
		if (err == nil) != insecure {
			t.Errorf("insecure %t: got %v", insecure, err)
		}
	}
	if n := len(f.recordedRequests("/manifests/")); n == 0 {
		t.Error("no provider was called")
	}
}

// TestCatalog verifies that a transport for a registry can list its catalog.
func TestCatalog(t *testing.T) {
	s, ref := startRegistry(t, testregistry.Options{Auth: testregistry.AuthBasic}, 1)
	tr := mustTransport(t, New(newTwoUserKeyring(t, s.Addr()), Options{}), ref.Context().Registry)
	repos, err := remote.Catalog(t.Context(), ref.Context().Registry, remote.WithTransport(tr.Wrapper()))
	if err != nil || fmt.Sprint(repos) != "[team/app]" {
		t.Errorf("got %v, %v", repos, err)
	}
}

// TestAuthenticator verifies that an Authenticator looks up again when its credential expires. If
// the lookup then finds no credential, the Authenticator becomes anonymous.
func TestAuthenticator(t *testing.T) {
	u := &providerUsers{}
	u.setUsers(providerUser{key: "registry.example", user: "good", password: canary.PasswordSecret})
	keys := New(u.newKeyring(t, "registry.example"), Options{})
	ref := parseReference(t, "registry.example/team/app")
	got := must.Get(keys.Resolve(ref.Context()))(t)
	a := got.(*authenticator)
	if cfg, err := a.Authorization(); err != nil || cfg.Username != "good" || cfg.Password != canary.PasswordSecret {
		t.Errorf("got %v", err)
	}
	a.expires = a.expires.Add(-2 * time.Hour)
	if cfg, err := a.AuthorizationContext(t.Context()); err != nil || cfg.Username != "good" {
		t.Errorf("again: got %v", err)
	}
	a.expires, a.req.Image = a.expires.Add(-2*time.Hour), "other.example/x"
	if cfg, err := a.Authorization(); err != nil || *cfg != (authn.AuthConfig{}) {
		t.Errorf("when there is none: got %v", err)
	}
	a.expires, a.req.Image = a.expires.Add(-2*time.Hour), ""
	if _, err := a.Authorization(); err == nil {
		t.Error("a lookup that fails gave no error")
	}
	if a, err := keys.Resolve(parseReference(t, "other.example/x").Context()); err != nil || a != authn.Anonymous {
		t.Errorf("got %v, %v", a, err)
	}
}
