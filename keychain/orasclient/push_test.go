// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package orasclient

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/keychain"
)

// TestPush pushes an image with two credentials, of which the first can only pull. The content
// comes from another registry, so each blob can be sent only once.
func TestPush(t *testing.T) {
	forEachAuth(t, func(t *testing.T, scheme testregistry.Auth) {
		source := startRegistry(t, testregistry.Options{Auth: scheme}, testregistry.Image{Layers: 4, LayerSize: 2 << 20, Seed: 1})
		s := startRegistry(t, testregistry.Options{Auth: scheme}, smallImage)
		c := newClient(t, providerUser{source.Addr(), "reader", canary.PasswordSecret, nil}, providerUser{s.Addr(), "reader", canary.PasswordSecret, nil}, providerUser{s.Addr(), "pusher", canary.PasswordSecret, nil})
		from, to := newRepository(t, c, source.Addr()+"/team/app"), newRepository(t, c, s.Addr()+"/copies/app")
		desc := must.Get(oras.Copy(t.Context(), from, "v1", to, "v1", oras.DefaultCopyOptions))(t)
		if got, err := pullImage(t.Context(), to, "v1"); err != nil || got != string(desc.Digest) {
			t.Errorf("pulled %v, %v", got, err)
		}
		if got := countRequests(s); got["pusher 201"] < 6 { // layers, config, manifest
			t.Error(got)
		}
	})
}

// TestPushRefused verifies a push whose first credential is rejected. The body is sent again with
// the second credential.
func TestPushRefused(t *testing.T) {
	forEachAuth(t, func(t *testing.T, scheme testregistry.Auth) {
		s := startRegistry(t, testregistry.Options{Auth: scheme}, smallImage)
		c := newClient(t, providerUser{s.Addr(), "reader", canary.PasswordSecret, nil}, providerUser{s.Addr(), "pusher", canary.PasswordSecret, nil})
		manifest := []byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}`)
		desc := content.NewDescriptorFromBytes("application/vnd.oci.image.index.v1+json", manifest)
		repo := newRepository(t, c, s.Addr()+"/copies/app")
		must.Do(t, repo.PushReference(t.Context(), desc, bytes.NewReader(manifest), "v1"))
		if got, err := repo.Resolve(t.Context(), "v1"); err != nil || got.Digest != desc.Digest {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

// TestPushNewRepository pushes to a new repository with two credentials. The first may not even
// read.
func TestPushNewRepository(t *testing.T) {
	forEachAuth(t, func(t *testing.T, scheme testregistry.Auth) {
		source, s := startRegistry(t, testregistry.Options{}, testregistry.Image{Seed: 1}), startRegistry(t, testregistry.Options{Auth: scheme}, smallImage)
		c := newClient(t, providerUser{s.Addr(), "nobody", canary.PasswordSecret, nil}, providerUser{s.Addr(), "pusher", canary.PasswordSecret, nil})
		from, to := newRepository(t, c, source.Addr()+"/team/app"), newRepository(t, c, s.Addr()+"/copies/app")
		if _, err := oras.Copy(t.Context(), from, "v1", to, "v1", oras.DefaultCopyOptions); err != nil {
			t.Error(err)
		}
	})
}

// TestMount verifies that a blob that the registry does not mount is copied from the other
// repository. The download uses the credential of that repository.
func TestMount(t *testing.T) {
	forEachAuth(t, func(t *testing.T, scheme testregistry.Auth) {
		s := startRegistry(t, testregistry.Options{Auth: scheme, Rules: []testregistry.Rule{
			{User: "reader", Prefix: "team", Pull: true}, {User: "pusher", Prefix: "copies", Pull: true, Push: true},
		}}, smallImage)
		k := newKeyring(t, providerUser{s.Addr() + "/team", "reader", canary.PasswordSecret, nil}, providerUser{s.Addr() + "/copies", "pusher", canary.PasswordSecret, nil})
		c := New(keychain.New(k, keychain.Options{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.URL.Query().Has("mount") {
				req = req.Clone(req.Context())
				req.URL.RawQuery = ""
			}
			return http.DefaultTransport.RoundTrip(req)
		})}))
		from, to := newRepository(t, c, s.Addr()+"/team/app"), newRepository(t, c, s.Addr()+"/copies/app")
		desc := must.Get(from.Resolve(t.Context(), "v1"))(t)
		layers := must.Get(content.Successors(t.Context(), from, desc))(t)
		for _, l := range layers {
			if err := to.Mount(t.Context(), l, "team/app", nil); err != nil {
				t.Error(err)
			}
		}
		if got := countRequests(s); got["pusher 201"] != len(layers) || got["reader 200"] < len(layers) {
			t.Error(got)
		}
	})
}

// TestUploads verifies pushes to a registry whose upload URLs do not contain the repository. They
// use the repository that is being pushed, and fail if there are several.
func TestUploads(t *testing.T) {
	source, s := startRegistry(t, testregistry.Options{}, testregistry.Image{Seed: 1}), startRegistry(t, testregistry.Options{Auth: testregistry.AuthBasic}, smallImage)
	back, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(back)
			if rest, ok := strings.CutPrefix(r.In.URL.Path, "/uploads/"); ok {
				r.Out.URL.Path = "/v2/copies/app/blobs/uploads/" + rest
			}
		},
		ModifyResponse: func(resp *http.Response) error {
			if l := resp.Header.Get("Location"); strings.Contains(l, "/uploads/") {
				resp.Header.Set("Location", "/uploads/"+l[strings.LastIndex(l, "/")+1:])
			}
			return nil
		},
	}
	front := httptest.NewServer(proxy)
	defer front.Close()
	host := strings.TrimPrefix(front.URL, "http://")
	c := newClient(t, providerUser{host, "reader", canary.PasswordSecret, nil}, providerUser{host + "/copies", "pusher", canary.PasswordSecret, nil})
	from, to := newRepository(t, c, source.Addr()+"/team/app"), newRepository(t, c, host+"/copies/app")
	if _, err := oras.Copy(t.Context(), from, "v1", to, "v1", oras.DefaultCopyOptions); err != nil {
		t.Error(err)
	}
	if got := countRequests(s); got["pusher 201"] < 4 {
		t.Error(got)
	}
	ref := to.Reference
	ref.Repository = "else/where"
	ctx := auth.AppendRepositoryScope(t.Context(), ref, auth.ActionPush)
	err = to.Blobs().Push(ctx, content.NewDescriptorFromBytes("", []byte("x")), strings.NewReader("x"))
	if err == nil || !strings.Contains(err.Error(), "several scopes") {
		t.Errorf("two pushes in one context: %v", err)
	}
}
