// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// The tests in this file replay the test vectors for lookups. parity_test.go replays the other
// vectors.

// auth is a credential in a test vector.
type auth struct{ Username, Password vectorText }

func pluginResponseFor(m map[string]auth) *plugin.Response {
	resp := &plugin.Response{CacheKeyType: plugin.CacheImage, Auth: map[string]plugin.AuthConfig{}}
	for k, a := range m {
		resp.Auth[k] = plugin.AuthConfig{Username: string(a.Username), Password: plugin.NewSecret(string(a.Password))}
	}
	return resp
}

// newInProcessKeyring returns a keyring with an in-process provider for each of the responses. The
// providers match all images of the tests.
func newInProcessKeyring(t *testing.T, answers []map[string]auth) *regcred.Keyring {
	t.Helper()
	c := &config.Config{}
	opts := regcred.Options{BinDir: t.TempDir(), InProcess: map[string]plugin.Provider{}}
	for i, a := range answers {
		name := fmt.Sprintf("p%d", i)
		c.Providers = append(c.Providers, config.Provider{
			Name: name, APIVersion: plugin.V1, DefaultCacheDuration: new(time.Hour),
			MatchImages: []string{"*", "*.*", "*.*.*", "*:5000", "*.*:5000"},
		})
		opts.InProcess[name] = plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) {
			return pluginResponseFor(a), nil
		})
	}
	return newKeyring(t, c, opts)
}

func newKeyring(t *testing.T, c *config.Config, opts regcred.Options) *regcred.Keyring {
	t.Helper()
	k := must.Get(regcred.New(c, opts))(t)
	t.Cleanup(func() { k.Close() })
	return k
}

// compareCredentials verifies that the credentials are equal and in the same order. It prints only user
// names.
func compareCredentials(t *testing.T, what string, got []regcred.Credential, want []auth) {
	t.Helper()
	var gotUsers, wantUsers []string
	var passwords bool
	for i, c := range got {
		gotUsers = append(gotUsers, c.Username)
		passwords = passwords || i < len(want) && c.Password.Reveal() != string(want[i].Password)
	}
	for _, a := range want {
		wantUsers = append(wantUsers, string(a.Username))
	}
	if !slices.Equal(gotUsers, wantUsers) || passwords {
		t.Errorf("%s: user names %q, want %q; a password differs: %t", what, gotUsers, wantUsers, passwords)
	}
}

func TestParityKeyring(t *testing.T) {
	type vector struct {
		Answers     []map[string]auth
		Image       string
		Credentials []auth
	}
	for _, v := range loadVectors[vector](t, "keyring") {
		res, err := newInProcessKeyring(t, v.Answers).Lookup(t.Context(), regcred.Request{Image: v.Image})
		if err != nil {
			t.Errorf("image %q: %v", v.Image, err)
			continue
		}
		var keys []string
		for _, a := range v.Answers {
			keys = append(keys, strings.Join(slices.Sorted(maps.Keys(a)), ","))
		}
		compareCredentials(t, fmt.Sprintf("image %q, keys %q", v.Image, keys), res.Credentials, v.Credentials)
	}
}

func TestParityDockerConfig(t *testing.T) {
	type vector struct {
		Name, Type, Key string
		Data            vectorText
		Error           bool
		Lookups         []struct {
			Image       string
			Credentials []auth
		}
	}
	k := newInProcessKeyring(t, nil)
	for _, v := range loadVectors[vector](t, "dockerconfig") {
		secret := regcred.PullSecret{Type: v.Type, Data: map[string][]byte{v.Key: []byte(v.Data)}}
		lookups := v.Lookups
		if v.Error {
			lookups = append(lookups, struct {
				Image       string
				Credentials []auth
			}{Image: "registry.io/app"})
		}
		for _, l := range lookups {
			res, err := k.Lookup(t.Context(), regcred.Request{Image: l.Image, PullSecrets: []regcred.PullSecret{secret}})
			if (err != nil) != v.Error {
				t.Errorf("%s, %s: error %v, want one: %t", v.Name, v.Type, err, v.Error)
			}
			if res == nil {
				t.Fatalf("%s, %s: no Result", v.Name, v.Type)
			}
			compareCredentials(t, v.Name+", "+v.Type, res.Credentials, l.Credentials)
		}
	}
}

// identityVector is a test vector with the identity for which a provider with tokenAttributes
// is called.
type identityVector struct {
	Image, Namespace, Name, UID, Token                    string
	Annotations                                           map[string]string
	NameLength, UIDLength, AnnotationLength, SecondLength int
}

// expandLengths replaces lengths in the vector by strings of that length. Vectors contain only the
// lengths, so that the files are small.
func (id identityVector) expandLengths() identityVector {
	if id.NameLength > 0 {
		id.Name = strings.Repeat("n", id.NameLength)
	}
	if id.UIDLength > 0 {
		id.UID = strings.Repeat("u", id.UIDLength)
	}
	id.Annotations = maps.Clone(id.Annotations)
	if id.Annotations == nil {
		id.Annotations = map[string]string{}
	}
	if id.AnnotationLength > 0 {
		id.Annotations["long"] = strings.Repeat("a", id.AnnotationLength)
	}
	if id.SecondLength > 0 {
		id.Annotations["second"] = strings.Repeat("b", id.SecondLength)
	}
	return id
}

// withoutToken reports whether the API server in the vector returns an empty token.
func (id identityVector) withoutToken() bool {
	return id.Token == "" && id.expandLengths().Name != ""
}

// GetServiceAccount implements regcred.ServiceAccountClient.
func (id *identityVector) GetServiceAccount(context.Context, string, string) (*regcred.ServiceAccount, error) {
	return &regcred.ServiceAccount{Namespace: id.Namespace, Name: id.Name, UID: id.UID, Annotations: id.Annotations}, nil
}

// RequestToken implements regcred.ServiceAccountClient.
func (id *identityVector) RequestToken(context.Context, regcred.TokenRequest) (plugin.Secret, error) {
	return plugin.NewSecret(id.Token), nil
}

// TestParityCacheKey verifies that each identity has the kubelet's cache key.
func TestParityCacheKey(t *testing.T) {
	type vector struct {
		CacheType      string
		A, B           identityVector
		Same           bool
		ErrorA, ErrorB bool
	}
	for i, v := range loadVectors[vector](t, "cachekey") {
		accounts := &identityVector{}
		k := newKeyring(t, tokenConfig(v.CacheType, v.A.expandLengths(), v.B.expandLengths()), regcred.Options{
			BinDir: t.TempDir(), ServiceAccounts: accounts,
			InProcess: map[string]plugin.Provider{"p": plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) {
				return pluginResponseFor(map[string]auth{"registry.io": {"u", canary.PasswordSecret}}), nil
			})},
		})
		ask := func(id identityVector) regcred.Attempt {
			*accounts = id.expandLengths()
			res, err := k.Lookup(t.Context(), regcred.Request{Image: id.Image, Pod: &regcred.Pod{
				Namespace: id.Namespace, Name: "pod", UID: "pod-uid", ServiceAccount: accounts.Name,
			}})
			if res == nil || len(res.Attempts) != 1 {
				t.Fatalf("case %d: want one attempt; error %v", i, err)
			}
			return res.Attempts[0]
		}
		a, b := ask(v.A), ask(v.B)
		if v.A.withoutToken() || v.B.withoutToken() {
			continue // regcred rejects an empty token; the kubelet passes it to the plugin
		}
		if (a.Err != nil) != v.ErrorA || (b.Err != nil) != v.ErrorB {
			t.Errorf("case %d, %s: errors %v and %v, the kubelet's %t and %t", i, v.CacheType, a.Err, b.Err, v.ErrorA, v.ErrorB)
		}
		if got := b.Cache == regcred.CacheHit; got != v.Same {
			t.Errorf("case %d, %s: served from the cache %t, want %t", i, v.CacheType, got, v.Same)
		}
	}
}

// tokenConfig returns a configuration with a provider in service-account mode that selects
// every annotation of the identities.
func tokenConfig(cacheType string, ids ...identityVector) *config.Config {
	var keys []string
	for _, id := range ids {
		keys = slices.AppendSeq(keys, maps.Keys(id.Annotations))
	}
	slices.Sort(keys)
	return &config.Config{Providers: []config.Provider{{
		Name: "p", MatchImages: []string{"registry.io"}, DefaultCacheDuration: new(time.Hour), APIVersion: plugin.V1,
		TokenAttributes: &config.TokenAttributes{
			ServiceAccountTokenAudience: "registry.io", CacheType: config.TokenCacheType(cacheType), RequireServiceAccount: new(false),
			OptionalServiceAccountAnnotationKeys: slices.Compact(keys),
		},
	}}}
}

func TestParityServiceAccount(t *testing.T) {
	type vector struct {
		Name, CacheType, Account string
		Require                  bool
		Required, Optional       []string
		Have                     map[string]string
		Fails                    string
		Echo                     bool

		Ran, GotToken bool
		Annotations   map[string]string
		Credentials   int
		From          string
	}
	for _, v := range loadVectors[vector](t, "serviceaccount") {
		t.Run(fmt.Sprintf("%s, %s, required %t", v.Name, v.CacheType, v.Require), func(t *testing.T) {
			c := tokenConfig(v.CacheType)
			c.Providers[0].TokenAttributes.RequireServiceAccount = &v.Require
			c.Providers[0].TokenAttributes.RequiredServiceAccountAnnotationKeys = v.Required
			c.Providers[0].TokenAttributes.OptionalServiceAccountAnnotationKeys = v.Optional
			var asked *plugin.Request
			k := newKeyring(t, c, regcred.Options{
				BinDir: t.TempDir(), ServiceAccounts: fakeAPIServer{v.Have, v.Fails},
				InProcess: map[string]plugin.Provider{"p": plugin.ProviderFunc(func(_ context.Context, req *plugin.Request) (*plugin.Response, error) {
					asked = req
					password := vectorText("open-sesame")
					if v.Echo {
						password = vectorText(req.ServiceAccountToken.Reveal())
					}
					return pluginResponseFor(map[string]auth{"registry.io": {"u", password}}), nil
				})},
			})
			res, err := k.Lookup(t.Context(), regcred.Request{Image: "registry.io/app", Pod: &regcred.Pod{Namespace: "ns", Name: "pod", UID: "pod-uid", ServiceAccount: v.Account}})
			if res == nil {
				t.Fatalf("no Result; error %v", err)
			}
			if (asked != nil) != v.Ran || len(res.Credentials) != v.Credentials {
				t.Fatalf("the plugin ran %t, %d credentials; want %t, %d; error %v", asked != nil, len(res.Credentials), v.Ran, v.Credentials, err)
			}
			if asked != nil && ((asked.ServiceAccountToken.Reveal() == canary.TokenSecret) != v.GotToken || !cmp.Equal(asked.ServiceAccountAnnotations, v.Annotations, cmpopts.EquateEmpty())) {
				t.Errorf("the plugin got a token %t and annotations %q, want %t and %q", !asked.ServiceAccountToken.IsZero(), asked.ServiceAccountAnnotations, v.GotToken, v.Annotations)
			}
			from := ""
			if len(res.Credentials) > 0 && res.Credentials[0].Origin.ServiceAccount != nil {
				ref := res.Credentials[0].Origin.ServiceAccount
				from = ref.Namespace + "/" + ref.Name + "/" + ref.UID
			}
			if from != v.From {
				t.Errorf("the credential is from %q, want %q", from, v.From)
			}
		})
	}
}

// fakeAPIServer simulates an API server whose service accounts all have the same annotations.
type fakeAPIServer struct {
	annotations map[string]string
	fails       string
}

// GetServiceAccount implements regcred.ServiceAccountClient.
func (s fakeAPIServer) GetServiceAccount(_ context.Context, namespace, name string) (*regcred.ServiceAccount, error) {
	if s.fails == "get" {
		return nil, errors.New("refused")
	}
	return &regcred.ServiceAccount{Namespace: namespace, Name: name, UID: "uid", Annotations: s.annotations}, nil
}

// RequestToken implements regcred.ServiceAccountClient.
func (s fakeAPIServer) RequestToken(context.Context, regcred.TokenRequest) (plugin.Secret, error) {
	if s.fails == "token" {
		return plugin.Secret{}, errors.New("refused")
	}
	return plugin.NewSecret(canary.TokenSecret), nil
}

// TestParityCache replays series of lookups. It verifies when the plugin runs and which
// credentials are returned.
func TestParityCache(t *testing.T) {
	type vector struct {
		Default, Scope string
		Duration       *string
		Keys, Images   []string
		Ran            []bool
		Credentials    []int
	}
	for i, v := range loadVectors[vector](t, "cache") {
		def := must.Get(time.ParseDuration(v.Default))(t)
		resp := &plugin.Response{CacheKeyType: plugin.CacheKeyType(v.Scope), Auth: map[string]plugin.AuthConfig{}}
		for _, key := range v.Keys {
			resp.Auth[key] = plugin.AuthConfig{Username: key}
		}
		if v.Duration != nil {
			d := must.Get(time.ParseDuration(*v.Duration))(t)
			resp.CacheDuration = &d
		}
		runs := 0
		k := newKeyring(t, &config.Config{Providers: []config.Provider{{
			Name: "p", MatchImages: []string{"*.io", "*.io:5000"}, DefaultCacheDuration: &def, APIVersion: plugin.V1,
		}}}, regcred.Options{BinDir: t.TempDir(), InProcess: map[string]plugin.Provider{
			"p": plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) {
				runs++
				return resp, nil
			}),
		}})
		for j, image := range v.Images {
			before := runs
			res, err := k.Lookup(t.Context(), regcred.Request{Image: image})
			if res == nil {
				t.Fatalf("case %d: %v", i, err)
			}
			if ran := runs > before; ran != v.Ran[j] || len(res.Credentials) != v.Credentials[j] {
				t.Errorf("case %d (scope %q, duration %v, default %s), image %d %q: ran %t, %d credentials; want %t, %d",
					i, v.Scope, resp.CacheDuration, v.Default, j, image, ran, len(res.Credentials), v.Ran[j], v.Credentials[j])
			}
		}
	}
}
