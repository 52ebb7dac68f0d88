// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cloud_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/provider/dockerconfig"
	"github.com/regcred/regcred/internal/provider/static"
	"github.com/regcred/regcred/keychain/cloud"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/provider/acr"
	"github.com/regcred/regcred/provider/ecr"
	"github.com/regcred/regcred/provider/gcr"
)

// emptyEnviron is a Getenv function for a pod without environment variables, and therefore without
// an identity.
func emptyEnviron(string) string { return "" }

func newGetenv(environ ...string) func(string) string {
	return func(name string) string {
		for _, entry := range environ {
			if n, value, _ := strings.Cut(entry, "="); n == name {
				return value
			}
		}
		return ""
	}
}

// requireProvider returns a [cloud.Provider] for a constructor's results. It panics if err is not nil.
func requireProvider(p plugin.Provider, err error) cloud.Provider {
	if err != nil {
		panic(err)
	}
	return cloud.Provider{Provider: p}
}

// withNameAndImages returns p with this name and these images.
func withNameAndImages(name string, p cloud.Provider, images ...string) cloud.Provider {
	p.Name, p.MatchImages = name, images
	return p
}

// emptyProvider is a provider that never returns a credential.
var emptyProvider = plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) {
	return &plugin.Response{CacheKeyType: plugin.CacheRegistry}, nil
})

func TestRefuses(t *testing.T) {
	amazon := requireProvider(ecr.InPod(ecr.Options{Getenv: emptyEnviron}))
	for want, tt := range map[string]struct {
		opts      regcred.Options
		providers []cloud.Provider
	}{
		"cloud: at least one provider is required":                              {},
		`cloud: provider 2: duplicate name "ecr-credential-provider"; set Name`: {providers: []cloud.Provider{amazon, requireProvider(ecr.New(ecr.Options{}))}},
		"cloud: provider 2: Provider must not be nil":                           {providers: []cloud.Provider{amazon, {Name: "team"}}},
		"cloud: provider 1: the provider has no name; set Name":                 {providers: []cloud.Provider{{Provider: emptyProvider, MatchImages: []string{"r.example"}}}},
		`cloud: provider 1: "team" has no default images; set MatchImages`:      {providers: []cloud.Provider{{Provider: emptyProvider, Name: "team"}}},
		`cloud: keyring: providers[0].name: must be a file name`:                {providers: []cloud.Provider{{Provider: amazon.Provider, Name: "a/b"}}},
		`cloud: keyring: providers[0].matchImages[0]: invalid pattern`:          {providers: []cloud.Provider{{Provider: emptyProvider, Name: "team", MatchImages: []string{"r.example:x"}}}},
		"cloud: Options.BinDir and Options.InProcess must be empty":             {opts: regcred.Options{BinDir: "/bin"}, providers: []cloud.Provider{amazon}},
		"cloud: Options.BinDir and Options.InProcess must be":                   {opts: regcred.Options{InProcess: map[string]plugin.Provider{}}, providers: []cloud.Provider{amazon}},
	} {
		_, err := cloud.New(tt.opts, tt.providers...)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

// TestIncompleteConfiguration verifies that an incomplete configuration of the pod's identity is an
// error. Otherwise the pod would silently use the node's identity.
func TestIncompleteConfiguration(t *testing.T) {
	amazon := func(environ ...string) error {
		_, err := ecr.InPod(ecr.Options{Getenv: newGetenv(environ...)})
		return err
	}
	azure := func(environ ...string) error {
		_, err := acr.InPod(acr.Options{Getenv: newGetenv(environ...)})
		return err
	}
	for _, tt := range []struct {
		err  error
		want string // prefix of the error; "" means no error
	}{
		{amazon("AWS_ROLE_ARN=arn"), "AWS_ROLE_ARN is set but AWS_WEB_IDENTITY_TOKEN_FILE is not; "},
		{amazon("AWS_WEB_IDENTITY_TOKEN_FILE=/token"), "AWS_WEB_IDENTITY_TOKEN_FILE is set but AWS_ROLE_ARN is not; "},
		{amazon("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=/token"), "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE is set but AWS_CONTAINER_CREDENTIALS_FULL_URI or AWS_CONTAINER_CREDENTIALS_RELATIVE_URI is not; "},
		{amazon("AWS_ACCESS_KEY_ID=key"), "AWS_ACCESS_KEY_ID is set but AWS_SECRET_ACCESS_KEY or AWS_SECRET_KEY is not; "},
		{amazon("AWS_SECRET_KEY=" + canary.PasswordSecret), "AWS_SECRET_KEY is set but AWS_ACCESS_KEY_ID or AWS_ACCESS_KEY is not; "},
		{amazon("AWS_ACCESS_KEY=key", "AWS_SECRET_ACCESS_KEY=x", "AWS_ROLE_ARN=arn"), ""},
		{amazon("AWS_WEB_IDENTITY_TOKEN_FILE=/token", "AWS_ROLE_ARN=arn", "AWS_CONTAINER_AUTHORIZATION_TOKEN=x"), ""},
		{amazon("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=/token", "AWS_CONTAINER_CREDENTIALS_FULL_URI=http://127.0.0.1"), ""},
		{amazon("AWS_PROFILE=pull", "AWS_REGION=eu-west-1"), ""},
		{azure("AZURE_FEDERATED_TOKEN_FILE=/token", "AZURE_TENANT_ID=t"), "AZURE_FEDERATED_TOKEN_FILE is set but AZURE_CLIENT_ID is not; annotate the service account with azure.workload.identity/client-id, "},
		{azure("AZURE_FEDERATED_TOKEN_FILE=/token", "AZURE_CLIENT_ID=c"), "AZURE_FEDERATED_TOKEN_FILE is set but AZURE_TENANT_ID is not; "},
		{azure("AZURE_CLIENT_SECRET=" + canary.PasswordSecret), "AZURE_CLIENT_SECRET and AZURE_CLIENT_CERTIFICATE_PATH are not supported in a pod, and there is no fallback to the node's identity"},
		{azure("AZURE_CLIENT_CERTIFICATE_PATH=/cert"), "AZURE_CLIENT_SECRET and AZURE_CLIENT_CERTIFICATE_PATH are not supported in a pod, and there is no fallback to the node's identity"},
		{azure("AZURE_CLIENT_ID=c", "AZURE_TENANT_ID=t"), ""},
	} {
		switch {
		case tt.want == "" && tt.err != nil, tt.want != "" && (tt.err == nil || !strings.HasPrefix(tt.err.Error(), tt.want)):
			t.Errorf("got %v\nwant %q", tt.err, tt.want)
		case tt.err != nil:
			canary.AssertAbsent(t, "the error", tt.err.Error())
		}
	}
	if _, err := acr.InPod(acr.Options{ConfigFile: "/azure.json", Getenv: emptyEnviron}); err == nil {
		t.Error("azure.json in a pod: no error")
	}
	if _, err := gcr.InPod(gcr.Options{Getenv: newGetenv("GCE_METADATA_HOST=http://x/")}); err == nil {
		t.Error("an address that is none: no error")
	}
}

// TestImages verifies which provider's default patterns match an image.
func TestImages(t *testing.T) {
	amazon, err := ecr.New(ecr.Options{
		AllowHosts: []string{"Images.Corp.example:5000=eu-west-1"}, MirrorOrigin: "none",
		Mirrors: []string{"docker.io/team=111122223333.dkr.ecr.eu-west-1.amazonaws.com/hub"},
	})
	if err != nil {
		t.Fatal(err)
	}
	google, err := gcr.New(gcr.Options{AllowHosts: []string{"*.hub.example"}, AnyHost: true, Mirrors: []string{"gcr.io/a=europe-docker.pkg.dev/b"}})
	if err != nil {
		t.Fatal(err)
	}
	azure, err := acr.New(acr.Options{ConfigFile: "/azure.json", AllowHosts: []string{"a.example,b.example:443"}, RegistryMirrors: []string{"mcr.microsoft.com:team.azurecr.io"}})
	if err != nil {
		t.Fatal(err)
	}
	providers := []interface {
		plugin.Provider
		Name() string
		MatchImages() []string
	}{amazon, google, azure}
	for image, want := range map[string]string{
		"111122223333.dkr.ecr.eu-west-1.amazonaws.com/app":         ecr.Name,
		"111122223333.dkr-ecr-fips.us-gov-east-1.on.aws/app":       ecr.Name,
		"111122223333.dkr.ecr.cn-north-1.amazonaws.com.cn/app":     ecr.Name,
		"111122223333.dkr.ecr.us-isof-east-1.csp.hci.ic.gov/app":   ecr.Name,
		"images.corp.example:5000/app":                             ecr.Name,
		"docker.io/team/app":                                       ecr.Name,
		"gcr.io/project/app":                                       gcr.Name,
		"eu.gcr.io/project/app":                                    gcr.Name,
		"europe-docker.pkg.dev/project/app":                        gcr.Name,
		"docker.europe-west1.rep.pkg.dev/project/app":              gcr.Name,
		"a.hub.example/app":                                        gcr.Name,
		"team.azurecr.io/app":                                      acr.Name,
		"team.westeurope.geo.azurecr.io/app":                       acr.Name,
		"team.azurecr.us/app":                                      acr.Name,
		"mcr.microsoft.com/app":                                    acr.Name,
		"a.example/app":                                            acr.Name,
		"b.example/app":                                            acr.Name,
		"public.ecr.aws/app":                                       "", // needs no credential, as on EKS
		"docker.io/library/nginx":                                  "",
		"registry.example/app":                                     "",
		"111122223333.dkr.ecr.eu-west-1.amazonaws.com.example/app": "",
	} {
		var got []string
		for _, p := range providers {
			if slices.ContainsFunc(p.MatchImages(), func(pattern string) bool {
				parsed, err := match.Parse(pattern)
				if err != nil {
					t.Errorf("%s: %q: %v", p.Name(), pattern, err)
				}
				return err == nil && parsed.Match(image)
			}) {
				got = append(got, p.Name())
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: matched by %q, want %q", image, got, want)
		}
	}
}

// TestOtherProviders verifies a keyring with providers that are not a cloud's, each with its own
// images. An image without a provider has no credential.
func TestOtherProviders(t *testing.T) {
	password := writeTokenFile(t, canary.PasswordSecret)
	must.Do(t, os.Chmod(password, 0o600))
	logins := writeTokenFile(t, `{"auths":{"logins.example":{"username":"u","password":"`+canary.PasswordSecret+`"}}}`)
	must.Do(t, os.Chmod(logins, 0o600))
	k, err := cloud.New(regcred.Options{},
		withNameAndImages("ci", requireProvider(static.New(static.Options{Username: "ci", PasswordFile: password, Hosts: []string{"static.example"}})), "static.example/team", "static.example/other"),
		withNameAndImages("logins", requireProvider(dockerconfig.New(dockerconfig.Options{Path: logins})), "logins.example"),
		withNameAndImages("none", requireProvider(emptyProvider, nil), "none.example"),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	for image, want := range map[string]string{
		"static.example/team/app": "ci: ci", "static.example/other": "ci: ci", "static.example/third": "",
		"logins.example/app": "logins: u", "none.example/app": "none: ", "r.example/app": "",
	} {
		result, err := k.Lookup(t.Context(), regcred.Request{Image: image})
		if err != nil {
			t.Errorf("%s: %v", image, err)
			continue
		}
		got := ""
		for _, a := range result.Attempts {
			got = a.Provider + ": "
		}
		for _, c := range result.Credentials {
			got += c.Username
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", image, got, want)
		}
	}
}

// TestDefaults verifies the defaults of New: a password is renewed in the background before it
// expires, and a failing provider is not called again at once. Both can be disabled.
func TestDefaults(t *testing.T) {
	for name, tt := range map[string]struct {
		opts            regcred.Options
		renewed, failed int32 // number of provider calls
	}{
		"as it is": {regcred.Options{}, 2, 1},
		"off":      {regcred.Options{RefreshAhead: -1, Backoff: -1}, 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var good, bad atomic.Int32
				k, err := cloud.New(tt.opts,
					withNameAndImages("good", cloud.Provider{Provider: plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) {
						good.Add(1)
						return &plugin.Response{CacheKeyType: plugin.CacheRegistry, CacheDuration: new(30 * time.Minute),
							Auth: map[string]plugin.AuthConfig{"good.example": {Username: "u", Password: plugin.NewSecret(canary.PasswordSecret)}}}, nil
					})}, "good.example"),
					withNameAndImages("bad", cloud.Provider{Provider: plugin.ProviderFunc(func(context.Context, *plugin.Request) (*plugin.Response, error) {
						bad.Add(1)
						return nil, errors.New("refused")
					})}, "bad.example"),
				)
				if err != nil {
					t.Fatal(err)
				}
				defer k.Close()
				for _, pause := range []time.Duration{0, 20 * time.Minute, 8 * time.Minute, 1 * time.Minute} {
					time.Sleep(pause)
					if _, err := k.Lookup(t.Context(), regcred.Request{Image: "good.example/app"}); err != nil {
						t.Error(err)
					}
					synctest.Wait()
				}
				for range 3 {
					if _, err := k.Lookup(t.Context(), regcred.Request{Image: "bad.example/app"}); err == nil || !strings.Contains(err.Error(), "refused") {
						t.Errorf("got %v, want the failure", err)
					}
				}
				if good.Load() != tt.renewed || bad.Load() != tt.failed {
					t.Errorf("asked %d and %d times, want %d and %d", good.Load(), bad.Load(), tt.renewed, tt.failed)
				}
			})
		})
	}
}

// cloudStarters returns functions that start a fake cloud with a pod that has no identity.
func cloudStarters() map[string]func(*testing.T) *testCloud {
	return map[string]func(*testing.T) *testCloud{
		"Amazon": func(t *testing.T) *testCloud { w, _ := newAWS(t); return w },
		"Google": func(t *testing.T) *testCloud { w, _ := newGoogle(t); return w },
		"Azure":  func(t *testing.T) *testCloud { w, _ := newAzure(t); return w },
	}
}

// passwordRequests returns the number of requests to the endpoint that returns the password.
func (w *testCloud) passwordRequests() (n int) {
	for _, r := range w.server.Requests() {
		if r.Path == w.passwordPath {
			n++
		}
	}
	return n
}

// TestConcurrentLookupsShareRequest verifies that 1,000 concurrent lookups of images on one
// registry send a single request to the cloud, and that later lookups send none.
func TestConcurrentLookupsShareRequest(t *testing.T) {
	for name, newWorld := range cloudStarters() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			k := w.newKeyring(nil)
			for round := range 2 {
				var wg sync.WaitGroup
				for i := range 1000 {
					wg.Go(func() {
						result, err := k.Lookup(t.Context(), regcred.Request{Image: fmt.Sprintf("%s/team/app-%d:v1", w.registry(1), i)})
						if err != nil || len(result.Credentials) == 0 {
							t.Errorf("no credential: %v", err)
						}
					})
				}
				wg.Wait()
				if n := w.passwordRequests(); n != 1 {
					t.Errorf("round %d: the cloud was called %d times, want once", round+1, n)
				}
			}
		})
	}
}
