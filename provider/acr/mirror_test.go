// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// TestMirrors verifies that --mirror and --registry-mirror can be used together.
func TestMirrors(t *testing.T) {
	p := must.Get(New(Options{
		ConfigFile: "azure.json", MirrorOrigin: "trusted",
		Mirrors:         []string{"docker.io=hub.azurecr.io/docker", "docker.io/library=hub.azurecr.io/official"},
		RegistryMirrors: []string{"mcr.microsoft.com:boot.azurecr.io, mcr.microsoft.com/oss = oss.azurecr.io/copy,", "quay.io:5000=quay.azurecr.io:443"},
	}))(t)
	for _, test := range []struct{ image, source, target string }{
		{"docker.io/team/x", "docker.io", "hub.azurecr.io"},
		{"docker.io/library/x", "docker.io/library", "hub.azurecr.io"},
		{"mcr.microsoft.com/x", "mcr.microsoft.com", "boot.azurecr.io"},
		{"mcr.microsoft.com", "mcr.microsoft.com", "boot.azurecr.io"},
		{"https://mcr.microsoft.com/x", "mcr.microsoft.com", "boot.azurecr.io"},
		{"mcr.microsoft.com/ossuary", "mcr.microsoft.com", "boot.azurecr.io"},
		{"mcr.microsoft.com/oss/x", "mcr.microsoft.com/oss", "oss.azurecr.io"},
		{"mcr.microsoft.com/oss:v1", "mcr.microsoft.com/oss", "oss.azurecr.io"},
		{"mcr.microsoft.com/oss@sha256:00", "mcr.microsoft.com/oss", "oss.azurecr.io"},
		{"quay.io:5000/x", "quay.io:5000", "quay.azurecr.io:443"},
		{"mcr.microsoft.com.evil/x", "", ""},
		{"mcr.microsoft.com:443/x", "", ""},
		{"quay.io:50001/x", "", ""},
		{"quay.io/x", "", ""},
		{"boot.azurecr.io/x", "", ""},
	} {
		rule, _ := p.mirrors.Find(test.image)
		if diff := cmp.Diff([2]string{test.source, test.target}, [2]string{rule.Source, rule.Target}); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", test.image, diff)
		}
	}
}

// TestMirrorsRefused verifies that New rejects invalid mirrors with an error that names the mirror.
func TestMirrorsRefused(t *testing.T) {
	upstreams := func(list string) Options { return Options{RegistryMirrors: []string{list}, MirrorOrigin: "trusted"} }
	ours := func(entry string) Options { return Options{Mirrors: []string{entry}, MirrorOrigin: "trusted"} }
	for _, test := range []struct {
		opts Options
		want []string
	}{
		{upstreams("mcr.microsoft.com:boot.azurecr.io,a:b:c"), []string{`--registry-mirror "a:b:c": must be SOURCE:TARGET or SOURCE=TARGET`}},
		{upstreams("nothing"), []string{`--registry-mirror "nothing": must be`}},
		{upstreams(":x.azurecr.io"), []string{`"=x.azurecr.io"`}},
		{upstreams("x.example:"), []string{`"x.example="`}},
		{upstreams("a.example=b=c"), []string{`"a.example=b=c"`}},
		{upstreams("mcr.microsoft.com:boot.azurecr.io,mcr.microsoft.com:other.azurecr.io"), []string{"another target"}},
		{upstreams("docker.io:mcr.microsoft.com"), []string{"the target mcr.microsoft.com is not part of Azure Container Registry"}},
		{ours("docker.io:foo.azurecr.io"), []string{`mirror "docker.io:foo.azurecr.io": must be SOURCE=TARGET`}},
		{ours("docker.io=mcr.microsoft.com"), []string{"the target mcr.microsoft.com is not part of Azure Container Registry"}},
		{ours("docker.io=evilazurecr.io"), []string{"the target evilazurecr.io is not part of Azure Container Registry; allow it with --allow-host"}},
		{ours("foo.azurecr.io=foo.azurecr.io"), []string{"the target is also the source of"}},
		{Options{Mirrors: []string{"docker.io=foo.azurecr.io"}}, []string{"if the runtime falls back to docker.io, it sends this credential there", "--mirror-origin=none"}},
		{Options{RegistryMirrors: []string{"docker.io:foo.azurecr.io"}}, []string{"--mirror-origin=none"}},
		// docker.io is a target here, but it still cannot be a source without --mirror-origin.
		{Options{RegistryMirrors: []string{"docker.io/lib:foo.azurecr.io,mcr.microsoft.com:docker.io/other"}}, []string{"falls back to docker.io", "--mirror-origin=none"}},
		{Options{RegistryMirrors: []string{"mcr.microsoft.com.evil.example:foo.azurecr.io"}}, []string{"--mirror-origin=none"}},
	} {
		test.opts.ConfigFile = "azure.json"
		_, err := New(test.opts)
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v %v: got the error %v, want %q", test.opts.Mirrors, test.opts.RegistryMirrors, err, want)
			}
		}
	}
	for _, opts := range []Options{ // these origins belong to Microsoft or ACR
		{RegistryMirrors: []string{"mcr.microsoft.com:boot.azurecr.io"}},
		{RegistryMirrors: []string{"mcr.microsoft.com:boot.azurecr.io", "MCR.microsoft.com/=Boot.azurecr.io/"}}, // a duplicate
		{Mirrors: []string{"mcr.microsoft.com=boot.azurecr.io"}},
		{Mirrors: []string{"old.azurecr.io=new.azurecr.io"}},
		{Mirrors: []string{"old.example.com=new.azurecr.io"}, AllowHosts: []string{"old.example.com"}},
		{Mirrors: []string{"docker.io=own.example.com"}, AllowHosts: []string{"own.example.com"}, MirrorOrigin: "none"},
	} {
		opts.ConfigFile = "azure.json"
		if _, err := New(opts); err != nil {
			t.Errorf("%v %v: %v", opts.Mirrors, opts.RegistryMirrors, err)
		}
	}
}

// TestMirrorKeys verifies that the target's credential is returned under the image's host or
// mirrored path.
func TestMirrorKeys(t *testing.T) {
	for name, want := range map[string]struct {
		keys  []string
		scope plugin.CacheKeyType
	}{
		"docker.io/library/x": {[]string{"docker.io/library", "foo.azurecr.io"}, plugin.CacheImage},
		"Docker.IO/library/x": {[]string{"Docker.IO/library", "foo.azurecr.io"}, plugin.CacheImage},
		"quay.io:5000/x":      {[]string{"quay.io:5000", "foo.azurecr.io"}, plugin.CacheRegistry},
	} {
		w := newTestCloud(t, managedIdentityConfig)
		w.opts.Mirrors, w.opts.MirrorOrigin = []string{"docker.io/library=foo.azurecr.io/hub", "quay.io:5000=foo.azurecr.io"}, "none"
		resp := w.mustGetCredentials(imageRequest(name))
		if diff := cmp.Diff(expectedAuth(want.keys...), authSummary(resp)); diff != "" || resp.CacheKeyType != want.scope {
			t.Errorf("%s: cached by %s, keys (-want +got)\n%s", name, resp.CacheKeyType, diff)
		}
	}
	// The host may also have images outside the mirrored path.
	w := newTestCloud(t, managedIdentityConfig)
	w.opts.Mirrors, w.opts.MirrorOrigin = []string{"docker.io/library=foo.azurecr.io/hub"}, "none"
	if resp := w.mustGetCredentials(imageRequest("docker.io/team/x")); len(resp.Auth) != 0 || len(w.az.SortedRequestLines()) != 0 || *resp.CacheDuration != 0 {
		t.Errorf("the rest: got %v after %q", authSummary(resp), w.az.SortedRequestLines())
	}
}

// TestMirrorTargetIsChecked verifies that each request checks a mirror's target, because New
// accepts targets in unknown clouds.
func TestMirrorTargetIsChecked(t *testing.T) {
	for _, config := range []string{managedIdentityConfig, servicePrincipalConfig} {
		w := newTestCloud(t, config)
		w.opts.RegistryMirrors = []string{"mcr.microsoft.com:evilazurecr.io"}
		w.opts.OtherHosts = "empty"
		w.checkError(imageRequest("mcr.microsoft.com/x"), "mirror of mcr.microsoft.com: the target evilazurecr.io is not part of Azure Container Registry; allow it with --allow-host")
		if len(w.az.SortedRequestLines()) != 0 {
			t.Errorf("asked %q", w.az.SortedRequestLines())
		}
	}
}

func TestForeignHosts(t *testing.T) {
	for _, name := range []string{
		"mcr.microsoft.com/x", "docker.io/library/x", "evilazurecr.io/x", "foo.azurecr.io.example/x", "azurecr.io.evil.example/x",
		"docker.io/azurecr.io/x", "foo.eastus.data.azurecr.io/x", "foo.azurecr.stack.example/x", "/", "a b.azurecr.io/x",
	} {
		for kind, config := range map[string]string{"managed": managedIdentityConfig, "principal": servicePrincipalConfig} {
			t.Run(name+" "+kind, func(t *testing.T) {
				w := newTestCloud(t, config)
				// These settings are not used.
				w.opts.Binding = Binding{SNIName: "ib.example", APIServer: "127.0.0.1:1"}
				w.checkError(podRequest(name, nil), "not part of Azure Container Registry", "--allow-host", "--other-hosts=empty")
				w.opts.OtherHosts = "empty"
				resp := w.mustGetCredentials(podRequest(name, nil))
				if len(resp.Auth) != 0 || resp.CacheKeyType != plugin.CacheRegistry || *resp.CacheDuration != 0 {
					t.Errorf("got %v %v %v", authSummary(resp), resp.CacheKeyType, *resp.CacheDuration)
				}
				if len(w.az.SortedRequestLines()) > 0 {
					t.Errorf("asked %q", w.az.SortedRequestLines())
				}
			})
		}
	}
	// The file that would define this registry's cloud is invalid.
	w := newTestCloud(t, "{")
	w.opts.OtherHosts = "empty"
	w.checkError(imageRequest("foo.azurecr.stack.example/x"), "credentials for foo.azurecr.stack.example: cloud configuration ", "neither JSON nor YAML")
}
