// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

func TestHosts(t *testing.T) {
	rules, err := newHostRules([]string{"pull.example.com, *.mirror.example.com", "own.example.com:5000", "default.example.com:443", "[::1]:443"})
	if err != nil {
		t.Fatal(err)
	}
	rules = rules.withSuffix(".azsacr.region.stack.example")
	for _, test := range []struct {
		image  string
		server string // "" means that the host is not a registry
	}{
		{"foo.azurecr.io/x", "foo.azurecr.io"},
		{"foo.azurecr.io", "foo.azurecr.io"},
		{"foo.azurecr.io:v1", "foo.azurecr.io"},
		{"foo.azurecr.io@sha256:00", "foo.azurecr.io"},
		{"foo.azurecr.io:443/x", "foo.azurecr.io"},
		{"foo.azurecr.io:8443/x", "foo.azurecr.io:8443"},
		{"https://foo.azurecr.io/x", "foo.azurecr.io"},
		{"FOO.AzureCR.IO/x", "foo.azurecr.io"},
		{"foo.azurecr.cn/x", "foo.azurecr.cn"},
		{"foo.azurecr.de/x", "foo.azurecr.de"},
		{"foo.azurecr.us/x", "foo.azurecr.us"},
		{"foo-abc123.azurecr.io/x", "foo-abc123.azurecr.io"},
		{"foo.eastus.geo.azurecr.io/x", "foo.eastus.geo.azurecr.io"},
		{"foo-abc123.eastus.geo.azurecr.us/x", "foo-abc123.eastus.geo.azurecr.us"},
		{"foo.azsacr.region.stack.example/x", "foo.azsacr.region.stack.example"},
		{"pull.example.com/x", "pull.example.com"},
		{"a.mirror.example.com/x", "a.mirror.example.com"},
		{"own.example.com:5000/x", "own.example.com:5000"},
		{"default.example.com:443/x", "default.example.com"},
		{"default.example.com/x", "default.example.com"},
		{"[::1]:443/x", "[::1]:443"},

		{"a-b-c.azurecr.io/x", ""},
		{"-foo.azurecr.io/x", ""},
		{"foo.eastus.data.azurecr.io/x", ""},
		{"foo.geo.azurecr.io/x", ""},
		{"a.b.eastus.geo.azurecr.io/x", ""},
		{"azurecr.io/x", ""},
		{"azurecr.io.evil.example/x", ""},
		{"foo.azurecr.io.example/x", ""},
		{"foo.azurecr.io.azurecr.cn/x", ""},
		{"evilazurecr.io/x", ""},
		{"foo.evilazurecr.io/x", ""},
		{"foo.azurecr.io./x", ""},
		{"foo.azurecr.io:https/x", ""},
		{"foo_bar.azurecr.io/x", ""},
		{"docker/foo.azurecr.io/x", ""},
		{"docker.io/azurecr.io/x", ""},
		{"docker.io/foo.azurecr.io/x", ""},
		{"user@foo.azurecr.io/x", ""},
		{"foo.azurecr.io%2eevil.example/x", ""},
		{"foo.azurecr.io\\evil.example/x", ""},
		{"foo.azurecr.io#evil.example/x", ""},
		{"mcr.microsoft.com/x", ""},
		{"azsacr.region.stack.example/x", ""},
		{"pull.example.com:5000/x", ""},
		{"a.b.mirror.example.com/x", ""},
		{"mirror.example.com/x", ""},
		{"own.example.com/x", ""},
		{"nginx", ""},
		{"", ""},
	} {
		host := (&plugin.Request{Image: test.image}).Registry()
		reg, ok := rules.findRegistry(host)
		if ok != (test.server != "") || ok && reg.server != test.server {
			t.Errorf("%q: got %v %q, want %q", test.image, ok, reg.server, test.server)
		}
		if ok && reg.authKey != host {
			t.Errorf("%q: the key is %q, want %q", test.image, reg.authKey, host)
		}
	}
}

func TestPublicSuffixIsIgnored(t *testing.T) {
	rules, _ := newHostRules(nil)
	for _, suffix := range []string{"", ".", "io", ".io", "*.io", "com"} {
		if got := rules.withSuffix(suffix); len(got.suffixes) != len(publicCloudSuffixes()) {
			t.Errorf("%q is taken for a suffix", suffix)
		}
	}
}

func TestAllowHostInvalid(t *testing.T) {
	for _, host := range []string{"", "*", "*.io", "https://foo.example", "foo.example/x", "foo.*.example", "a..example", "foo.example:x", "a,"} {
		_, err := newHostRules([]string{host})
		if err == nil || !strings.Contains(err.Error(), "--allow-host ") {
			t.Errorf("%q: got error %v", host, err)
		}
	}
}

func TestExchangeURL(t *testing.T) {
	rules := must.Get(newHostRules([]string{"pull.example.com"}))(t)
	for _, test := range []struct {
		name, host, realm string
		want              string // URL, or part of the error
	}{
		{"itself", "foo.azurecr.io", "https://foo.azurecr.io/oauth2/token", "https://foo.azurecr.io/oauth2/exchange"},
		{"itself in capitals", "foo.azurecr.io", "https://FOO.AZURECR.IO/oauth2/token", "https://foo.azurecr.io/oauth2/exchange"},
		{"default port", "foo.azurecr.io:443", "https://foo.azurecr.io/t", "https://foo.azurecr.io/oauth2/exchange"},
		{"named default port", "foo.azurecr.io", "https://foo.azurecr.io:443/t", "https://foo.azurecr.io/oauth2/exchange"},
		{"own port", "foo.azurecr.io:8443", "https://foo.azurecr.io:8443/t", "https://foo.azurecr.io:8443/oauth2/exchange"},
		{"without the port", "foo.azurecr.io:8443", "https://foo.azurecr.io/t", "https://foo.azurecr.io/oauth2/exchange"},
		{"global for regional", "foo.eastus.geo.azurecr.io", "https://foo.azurecr.io/t", "https://foo.azurecr.io/oauth2/exchange"},
		{"regional for global", "foo.azurecr.io", "https://foo.eastus.geo.azurecr.io/t", "https://foo.eastus.geo.azurecr.io/oauth2/exchange"},
		{"behind an allowed host", "pull.example.com", "https://foo.azurecr.io/t", "https://foo.azurecr.io/oauth2/exchange"},
		{"allowed host itself", "pull.example.com", "https://pull.example.com/t", "https://pull.example.com/oauth2/exchange"},

		{"another registry", "foo.azurecr.io", "https://bar.azurecr.io/t", "another host"},
		{"another cloud", "foo.azurecr.io", "https://foo.azurecr.cn/t", "another host"},
		{"another port", "foo.azurecr.io", "https://foo.azurecr.io:8443/t", "another host"},
		{"another host", "foo.azurecr.io", "https://evil.example/t", "another host"},
		{"lookalike", "foo.azurecr.io", "https://foo.azurecr.io.evil.example/t", "another host"},
		{"allowed host for a registry", "foo.azurecr.io", "https://pull.example.com/t", "another host"},
		{"foreign for an allowed host", "pull.example.com", "https://evil.example/t", "another host"},
		{"plain", "foo.azurecr.io", "http://foo.azurecr.io/t", "the challenge's realm does not use https; refusing to send a token to it"},
		{"user", "foo.azurecr.io", "https://foo.azurecr.io@evil.example/t", "the challenge's realm does not use https; refusing to send a token to it"},
		{"user of itself", "foo.azurecr.io", "https://u:p@foo.azurecr.io/t", "the challenge's realm does not use https; refusing to send a token to it"},
		{"no URL", "foo.azurecr.io", "testregistry", "the challenge's realm is not a URL"},
		{"nothing", "foo.azurecr.io", "", "the challenge's realm is not a URL"},
		{"control character", "foo.azurecr.io", "https://foo.azurecr.io/\x00", "the challenge's realm is not a URL"},
		{"backslash", "foo.azurecr.io", `https://foo.azurecr.io\@evil.example/`, "the challenge's realm is not a URL"},
	} {
		t.Run(test.name, func(t *testing.T) {
			reg, ok := rules.findRegistry(test.host)
			if !ok {
				t.Fatal("not a registry")
			}
			got, err := rules.exchangeURL(reg, test.realm)
			if err != nil {
				if got != "" {
					t.Errorf("an address with the error: %s", got)
				}
				got = err.Error()
			}
			if !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
