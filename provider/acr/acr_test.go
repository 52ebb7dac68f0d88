// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/plugin"
)

// expectedAuth returns the expected keys of a response: the hosts with a refresh token, and the
// anonymous key.
func expectedAuth(hosts ...string) map[string]string {
	m := map[string]string{"*.azurecr.*": ""}
	for _, host := range hosts {
		m[host] = refreshTokenUser + ":token"
	}
	return m
}

func TestManagedIdentity(t *testing.T) {
	for _, test := range []struct {
		name, config string
		state        func(*testcloud.AzureState)
		query        map[string]string
	}{
		{"system-assigned", managedIdentityConfig, func(s *testcloud.AzureState) { s.Tenant = "node-tenant" }, nil},
		{"by client", `{"useManagedIdentityExtension":true,"userAssignedIdentityID":"id-1"}`,
			func(s *testcloud.AzureState) { s.ClientID = "id-1" }, map[string]string{"client_id": "id-1"}},
		{"by resource", `{"useManagedIdentityExtension":true,"userAssignedIdentityID":"/SUBSCRIPTIONS/1/id"}`,
			func(s *testcloud.AzureState) { s.ResourceID = "/SUBSCRIPTIONS/1/id" }, map[string]string{"msi_res_id": "/SUBSCRIPTIONS/1/id"}},
		{"rather than a secret", `{"useManagedIdentityExtension":true,"aadClientId":"msi","aadClientSecret":"msi"}`, nil, nil},
		{"in another cloud", `{"useManagedIdentityExtension":true,"cloud":"AzureChinaCloud"}`, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newTestCloud(t, test.config)
			if test.state != nil {
				w.az.Update(test.state)
			}
			resp := w.mustGetCredentials(imageRequest("foo.azurecr.io/app"))
			if diff := cmp.Diff(expectedAuth("foo.azurecr.io"), authSummary(resp)); diff != "" {
				t.Errorf("keys (-want +got)\n%s", diff)
			}
			if resp.CacheKeyType != plugin.CacheRegistry || *resp.CacheDuration != time.Hour {
				t.Errorf("cached for %v %v, want Registry 1h", resp.CacheKeyType, *resp.CacheDuration)
			}
			if diff := cmp.Diff([]string{imdsLine, challengeLine, exchangeLine}, w.az.SortedRequestLines()); diff != "" {
				t.Errorf("requests (-want +got)\n%s", diff)
			}
			for name, want := range test.query {
				if got := w.findRequest(imdsPath).Query.Get(name); got != want {
					t.Errorf("%s: got %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestServicePrincipal(t *testing.T) {
	w := newTestCloud(t, servicePrincipalConfig)
	w.az.Update(func(s *testcloud.AzureState) {
		s.ClientID, s.Tenant, s.ClientSecret = "node-client", "node-tenant", canary.PasswordSecret
	})
	resp := w.mustGetCredentials(imageRequest("foo.azurecr.io/app"))
	if diff := cmp.Diff(expectedAuth("foo.azurecr.io"), authSummary(resp)); diff != "" {
		t.Errorf("keys (-want +got)\n%s", diff)
	}
	want := []string{"POST login.microsoftonline.com/node-tenant/oauth2/v2.0/token", challengeLine, exchangeLine}
	if diff := cmp.Diff(want, w.az.SortedRequestLines()); diff != "" {
		t.Errorf("requests (-want +got)\n%s", diff)
	}
}

func TestStaticSecret(t *testing.T) {
	four := []string{"*.azurecr.io", "*.azurecr.cn", "*.azurecr.de", "*.azurecr.us"}
	for _, test := range []struct {
		name, image string
		own         string // registry suffix of the cloud
		more        []string
	}{
		{"registry", "foo.azurecr.io/app", "", nil},
		{"regional", "foo.eastus.geo.azurecr.io/app", "", []string{"foo.eastus.geo.azurecr.io"}},
		{"port", "foo.azurecr.io:443/app", "", []string{"foo.azurecr.io:443"}},
		{"own cloud", "foo.azurecr.stack.example/app", ".azurecr.stack.example", []string{"*.azurecr.stack.example"}},
		{"own cloud of another form", "foo.azsacr.stack.example/app", ".azsacr.stack.example", []string{"foo.azsacr.stack.example"}},
		{"source of a mirror", "mcr.microsoft.com/app", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newTestCloud(t, strings.Replace(servicePrincipalConfig, "{", `{"cloud":"AzureStackCloud",`, 1))
			w.opts.StaticSecret, w.opts.RegistryMirrors = true, []string{"mcr.microsoft.com:foo.azurecr.io"}
			w.env["AZURE_ENVIRONMENT_FILEPATH"] = w.writeFile("env.json", `{"containerRegistryDNSSuffix":"`+test.own+`"}`)
			want := map[string]string{"*.azurecr.*": ""}
			for _, key := range append(four, test.more...) {
				want[key] = "node-client:secret"
			}
			resp := w.mustGetCredentials(imageRequest(test.image))
			if diff := cmp.Diff(want, authSummary(resp)); diff != "" {
				t.Errorf("keys (-want +got)\n%s", diff)
			}
			if len(w.az.SortedRequestLines()) > 0 {
				t.Errorf("asked %q", w.az.SortedRequestLines())
			}
		})
	}
	t.Run("a cloud that cannot be read", func(t *testing.T) {
		w := newTestCloud(t, strings.Replace(servicePrincipalConfig, "{", `{"cloud":"AzureStackCloud",`, 1))
		w.opts.StaticSecret = true
		w.env["AZURE_ENVIRONMENT_FILEPATH"] = "/nonexistent/env.json"
		w.checkError(imageRequest("foo.azurecr.io/app"), "/nonexistent/env.json")
	})
	t.Run("not for a pod", func(t *testing.T) {
		w := newTestCloud(t, servicePrincipalConfig)
		w.opts.StaticSecret = true
		resp := w.mustGetCredentials(podRequest("foo.azurecr.io/app", identityAnnotations("client-1", "tenant-1")))
		if diff := cmp.Diff(expectedAuth("foo.azurecr.io"), authSummary(resp)); diff != "" {
			t.Errorf("keys (-want +got)\n%s", diff)
		}
	})
}

func TestNoIdentityConfigured(t *testing.T) {
	for name, config := range map[string]string{
		"empty":         ``,
		"object":        `{}`,
		"without id":    `{"aadClientSecret":"` + canary.PasswordSecret + `"}`,
		"without proof": `{"aadClientId":"node-client"}`,
		"no file":       `{"aadClientId":"node-client","useFederatedWorkloadIdentityExtension":true}`,
		"data plane":    `{"aadClientId":"node-client","aadMSIDataPlaneIdentityPath":"/x"}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestCloud(t, config)
			w.checkError(imageRequest("foo.azurecr.io/app"), "has no identity", "set useManagedIdentityExtension")
			if len(w.az.SortedRequestLines()) > 0 {
				t.Errorf("asked %q", w.az.SortedRequestLines())
			}
		})
	}
}

func TestKeys(t *testing.T) {
	for _, test := range []struct {
		image   string
		want    []string
		cacheBy plugin.CacheKeyType
		server  string
	}{
		{"foo.azurecr.io/app", []string{"foo.azurecr.io"}, plugin.CacheRegistry, "foo.azurecr.io"},
		{"foo.azurecr.io:443/app", []string{"foo.azurecr.io:443"}, plugin.CacheRegistry, "foo.azurecr.io"},
		{"FOO.azurecr.io/app", []string{"FOO.azurecr.io"}, plugin.CacheRegistry, "foo.azurecr.io"},
		{"foo-abc1.azurecr.cn/app", []string{"foo-abc1.azurecr.cn"}, plugin.CacheRegistry, "foo-abc1.azurecr.cn"},
		{"foo.eastus.geo.azurecr.io/app", []string{"foo.eastus.geo.azurecr.io"}, plugin.CacheRegistry, "foo.eastus.geo.azurecr.io"},
		{"quay.io/app", []string{"quay.io", "boot.azurecr.io"}, plugin.CacheRegistry, "boot.azurecr.io"},
		{"mcr.microsoft.com/app", []string{"mcr.microsoft.com", "boot.azurecr.io"}, plugin.CacheImage, "boot.azurecr.io"},
		{"mcr.microsoft.com/oss/app", []string{"mcr.microsoft.com/oss", "oss.azurecr.io"}, plugin.CacheImage, "oss.azurecr.io"},
		{"bar.azurecr.io/app", []string{"bar.azurecr.io"}, plugin.CacheImage, "bar.azurecr.io"},
		{"pull.example.com/app", []string{"pull.example.com"}, plugin.CacheRegistry, "pull.example.com"},
	} {
		t.Run(test.image, func(t *testing.T) {
			w := newTestCloud(t, managedIdentityConfig)
			w.net.Handle("pull.example.com", w.az)
			w.opts.AllowHosts = []string{"pull.example.com"}
			w.opts.MirrorOrigin = "trusted"
			w.opts.RegistryMirrors = []string{"mcr.microsoft.com:boot.azurecr.io,mcr.microsoft.com/oss:oss.azurecr.io", "quay.io:boot.azurecr.io,bar.azurecr.io/team:oss.azurecr.io"}
			resp := w.mustGetCredentials(imageRequest(test.image))
			if diff := cmp.Diff(expectedAuth(test.want...), authSummary(resp)); diff != "" {
				t.Errorf("keys (-want +got)\n%s", diff)
			}
			if resp.CacheKeyType != test.cacheBy {
				t.Errorf("cached by %v, want %v", resp.CacheKeyType, test.cacheBy)
			}
			if got, want := w.az.SortedRequestLines()[1], "GET "+test.server+"/v2/"; got != want {
				t.Errorf("asked %q, want %q", got, want)
			}
		})
	}
}

func TestCustomCloud(t *testing.T) {
	const metadata = `[{"name":"Other","authentication":{"loginEndpoint":"https://login.other.example"},"suffixes":{"acrLoginServer":"azurecr.other.example"}},
		{"name":"Own","authentication":{"loginEndpoint":"https://login.own.example/","audiences":[]},"suffixes":{"acrLoginServer":"azurecr.own.example"}}]`
	newOwn := func(t *testing.T, config string) *testCloud {
		w := newTestCloud(t, config)
		w.az.Update(func(s *testcloud.AzureState) { s.Metadata = metadata })
		for _, host := range []string{"*.own.example", "*.azurecr.own.example", "*.file.example"} {
			w.net.Handle(host, w.az)
		}
		return w
	}
	const ask = "GET arm.own.example/metadata/endpoints"
	t.Run("resource manager", func(t *testing.T) {
		w := newOwn(t, `{"cloud":"own","resourceManagerEndpoint":"https://arm.own.example/"}`)
		resp := w.mustGetCredentials(podRequest("foo.azurecr.own.example/x", identityAnnotations("c", "t")))
		if diff := cmp.Diff(expectedAuth("foo.azurecr.own.example"), authSummary(resp)); diff != "" {
			t.Errorf("keys (-want +got)\n%s", diff)
		}
		want := []string{ask, "POST login.own.example/t/oauth2/v2.0/token", "GET foo.azurecr.own.example/v2/", "POST foo.azurecr.own.example/oauth2/exchange"}
		if diff := cmp.Diff(want, w.az.SortedRequestLines()); diff != "" {
			t.Errorf("requests (-want +got)\n%s", diff)
		}
	})
	t.Run("behind an allowed host", func(t *testing.T) {
		w := newOwn(t, `{"cloud":"own","useManagedIdentityExtension":true,"resourceManagerEndpoint":"https://arm.own.example/"}`)
		w.net.Handle("pull.example.com", w.az)
		w.opts.AllowHosts = []string{"pull.example.com"}
		fault := challengeFault(`Bearer realm="https://foo.azurecr.own.example/oauth2/token",service="foo.azurecr.own.example"`)
		fault.Path = "/v2/"
		w.az.Inject(fault)
		w.mustGetCredentials(imageRequest("pull.example.com/x"))
		want := []string{imdsLine, ask, "GET pull.example.com/v2/", "POST foo.azurecr.own.example/oauth2/exchange"}
		if diff := cmp.Diff(want, w.az.SortedRequestLines()); diff != "" {
			t.Errorf("requests (-want +got)\n%s", diff)
		}
	})
	t.Run("foreign", func(t *testing.T) {
		w := newOwn(t, `{"cloud":"own","resourceManagerEndpoint":"https://arm.own.example/"}`)
		w.checkError(imageRequest("foo.azurecr.other.example/x"), "not part of Azure Container Registry")
		if diff := cmp.Diff([]string{ask}, w.az.SortedRequestLines()); diff != "" {
			t.Errorf("requests (-want +got)\n%s", diff)
		}
	})
	t.Run("mirror", func(t *testing.T) {
		w := newOwn(t, `{"cloud":"own","useManagedIdentityExtension":true,"resourceManagerEndpoint":"https://arm.own.example/"}`)
		w.opts.RegistryMirrors = []string{"mcr.microsoft.com:foo.azurecr.own.example"}
		resp := w.mustGetCredentials(imageRequest("mcr.microsoft.com/x"))
		if diff := cmp.Diff(expectedAuth("mcr.microsoft.com", "foo.azurecr.own.example"), authSummary(resp)); diff != "" {
			t.Errorf("keys (-want +got)\n%s", diff)
		}
	})
	t.Run("not asked for a known host", func(t *testing.T) {
		w := newOwn(t, `{"useManagedIdentityExtension":true,"resourceManagerEndpoint":"https://arm.own.example/"}`)
		w.mustGetCredentials(imageRequest("foo.azurecr.io/x"))
		if diff := cmp.Diff([]string{imdsLine, challengeLine, exchangeLine}, w.az.SortedRequestLines()); diff != "" {
			t.Errorf("requests (-want +got)\n%s", diff)
		}
	})
	t.Run("environment file", func(t *testing.T) {
		w := newOwn(t, `{"cloud":"azurestackcloud","resourceManagerEndpoint":"https://arm.own.example/"}`)
		w.env["AZURE_ENVIRONMENT_FILEPATH"] = w.writeFile("env.json", `{"name":"x","ActiveDirectoryEndpoint":"https://login.file.example/","containerRegistryDNSSuffix":".azsacr.file.example"}`)
		w.mustGetCredentials(podRequest("foo.azsacr.file.example/x", identityAnnotations("c", "t")))
		if got, want := w.az.SortedRequestLines()[1], "POST login.file.example/t/oauth2/v2.0/token"; got != want {
			t.Errorf("asked %q, want %q", got, want)
		}
	})
	t.Run("environment file of another cloud", func(t *testing.T) {
		w := newOwn(t, managedIdentityConfig)
		w.env["AZURE_ENVIRONMENT_FILEPATH"] = "/nonexistent/env.json"
		w.mustGetCredentials(imageRequest("foo.azurecr.io/x"))
	})
	for name, test := range map[string]struct {
		config, env, metadata string
		fault                 *testcloud.Fault
		want                  string
	}{
		"bad configuration of an own cloud": {"{", "/nonexistent/env.json", metadata, nil, "neither JSON nor YAML"},
		"missing environment file":          {`{"cloud":"AzureStackCloud"}`, "/nonexistent/env.json", metadata, nil, `AZURE_ENVIRONMENT_FILEPATH: environment file "/nonexistent/env.json": no such file or directory`},
		"metadata that is none":             {`{"resourceManagerEndpoint":"https://arm.own.example"}`, "", `<html>` + canary.TokenSecret, nil, "arm.own.example for the cloud's endpoints: the response is not a JSON list"},
		"metadata refused": {`{"resourceManagerEndpoint":"https://arm.own.example"}`, "", metadata, &testcloud.Fault{Status: 403, Body: canary.TokenSecret},
			"GET https://arm.own.example/metadata/endpoints: status 403 Forbidden; check resourceManagerEndpoint"},
		"no URL":                        {`{"resourceManagerEndpoint":"arm.own.example"}`, "", metadata, nil, "resourceManagerEndpoint must be an https URL, because its response determines where secrets are sent"},
		"plain":                         {`{"resourceManagerEndpoint":"http://arm.own.example"}`, "", metadata, nil, "resourceManagerEndpoint must be an https URL, because its response determines where secrets are sent"},
		"a user":                        {`{"resourceManagerEndpoint":"https://u:` + canary.PasswordSecret + `@arm.own.example"}`, "", metadata, nil, "resourceManagerEndpoint must be an https URL, because its response determines where secrets are sent"},
		"config that anybody can write": {"0666", "", metadata, nil, "other users can change it; run chmod o-w"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newOwn(t, test.config)
			if test.config == "0666" {
				w.opts.ConfigFile = w.fileWithMode(0o666, `{"resourceManagerEndpoint":"https://arm.own.example"}`)
			}
			w.az.Update(func(s *testcloud.AzureState) { s.Metadata = test.metadata })
			w.env["AZURE_ENVIRONMENT_FILEPATH"] = test.env
			if test.fault != nil {
				w.az.Inject(*test.fault)
			}
			w.checkError(imageRequest("foo.azurecr.own.example/x"), test.want)
		})
	}
	for name, endpoint := range map[string]string{"plain": "http://login.own.example", "garbage": "login.own.example", "user": "https://u@login.own.example"} {
		t.Run("login endpoint "+name, func(t *testing.T) {
			w := newOwn(t, `{"resourceManagerEndpoint":"https://arm.own.example"}`)
			w.az.Update(func(s *testcloud.AzureState) {
				s.Metadata = `[{"name":"Own","authentication":{"loginEndpoint":"` + endpoint + `"}}]`
			})
			w.checkError(podRequest("foo.azurecr.io/x", identityAnnotations("c", "t")), "loginEndpoint in the response from the resource manager arm.own.example is not an https URL; refusing to send a secret to it")
		})
	}
}

func TestCacheFor(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	for _, test := range []struct {
		name   string
		claims map[string]any
		want   time.Duration
	}{
		{"three hours", map[string]any{"iat": at(0), "exp": at(3 * time.Hour)}, time.Hour},
		{"one hour", map[string]any{"iat": at(0), "exp": at(time.Hour)}, 30 * time.Minute},
		{"not issued", map[string]any{"exp": at(time.Hour)}, 30 * time.Minute},
		{"the node is ahead", map[string]any{"iat": at(-50 * time.Minute), "exp": at(10 * time.Minute)}, 5 * time.Minute},
		{"the node is behind", map[string]any{"iat": at(50 * time.Minute), "exp": at(60 * time.Minute)}, 5 * time.Minute},
		{"over", map[string]any{"iat": at(-2 * time.Hour), "exp": at(-time.Hour)}, 0},
		{"nearly over", map[string]any{"exp": at(time.Second)}, 0},
		{"backwards", map[string]any{"iat": at(2 * time.Hour), "exp": at(time.Hour)}, 0},
		{"no end", map[string]any{"iat": at(0)}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newTestCloud(t, managedIdentityConfig)
			w.opts.now = func() time.Time { return now }
			w.az.Update(func(s *testcloud.AzureState) { s.RefreshToken = testcloud.AzureJWT(test.claims) })
			if got := *w.mustGetCredentials(imageRequest("foo.azurecr.io/x")).CacheDuration; got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	t.Run("opaque", func(t *testing.T) {
		w := newTestCloud(t, managedIdentityConfig)
		w.az.Update(func(s *testcloud.AzureState) { s.RefreshToken = "opaque" })
		if got := *w.mustGetCredentials(imageRequest("foo.azurecr.io/x")).CacheDuration; got != 0 || !strings.Contains(w.log.String(), "has no expiry") {
			t.Errorf("got %v; log:\n%s", got, w.log)
		}
	})
}

// TestPull verifies that a registry accepts the plugin's response.
func TestPull(t *testing.T) {
	refresh := testcloud.AzureJWT(map[string]any{"exp": time.Now().Add(3 * time.Hour).Unix(), "jti": canary.PasswordSecret})
	reg, err := testregistry.New(testregistry.Options{
		Auth: testregistry.AuthBearer, TokenServerURL: "https://foo.azurecr.io", Users: map[string]string{testcloud.ACRUser: refresh},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer reg.Close()
	must.Get(reg.Push("team/app", "v1", testregistry.Image{}))(t)
	w := newTestCloud(t, managedIdentityConfig)
	w.az.Update(func(s *testcloud.AzureState) { s.RefreshToken, s.Registry = refresh, reg })
	auth := w.mustGetCredentials(imageRequest("foo.azurecr.io/team/app")).Auth["foo.azurecr.io"]
	ref := must.Get(name.ParseReference("foo.azurecr.io/team/app:v1"))(t)
	for password, works := range map[string]bool{auth.Password.Reveal(): true, canary.PasswordSecret: false} {
		_, err := remote.Image(ref, remote.WithTransport(w.net.Transport()), remote.WithAuth(&authn.Basic{Username: auth.Username, Password: password}))
		if (err == nil) != works {
			t.Errorf("pulled: %v, want %v", err == nil, works)
		}
	}
}

func TestUserAgents(t *testing.T) {
	for _, config := range []string{managedIdentityConfig, servicePrincipalConfig} {
		w := newTestCloud(t, strings.Replace(config, "{", `{"userAgent":"kubelet-of-mine",`, 1))
		w.mustGetCredentials(imageRequest("foo.azurecr.io/x"))
		token := imdsPath
		if config == servicePrincipalConfig {
			token = entraPath
		}
		for path, want := range map[string]string{token: "kubelet-of-mine", "/v2/": userAgent, exchangePath: userAgent} {
			if got := w.findRequest(path).Header.Get("User-Agent"); got != want {
				t.Errorf("%s: got %q, want %q", path, got, want)
			}
		}
	}
}
