// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package mirror_test

import (
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/mirror"
	"github.com/regcred/regcred/plugin"
)

const (
	registry = "registry.cloud.example"
	other    = "other.cloud.example:5000"
)

// options are those of a plugin that serves *.cloud.example.
func options(origin mirror.Origin) mirror.Options {
	return mirror.Options{
		Own: func(host string) bool {
			name, _, _ := strings.Cut(host, ":")
			return strings.HasSuffix(name, ".cloud.example")
		},
		Owner: "the cloud", Origin: origin,
	}
}

func TestFind(t *testing.T) {
	m, err := mirror.Parse([]string{
		"docker.io=" + registry + "/hub", "docker.io/library=" + other + "/official/",
		"quay.io:8443=" + registry, "QUAY.io:8443=" + registry + "/", "old.cloud.example=" + registry, "Quay.IO/Team=" + registry + "/Q",
	}, options(mirror.OriginTrusted))
	if err != nil {
		t.Fatal(err)
	}
	for image, want := range map[string]string{
		"docker.io/team/app":              registry + "/hub",
		"docker.io/library/nginx":         other + "/official",
		"docker.io/library":               other + "/official",
		"docker.io/library:1":             other + "/official",
		"docker.io/library@sha256:00":     other + "/official",
		"docker.io/libraryteam/nginx":     registry + "/hub",
		"DOCKER.io/library/nginx":         other + "/official",
		"https://docker.io/library/nginx": other + "/official",
		"docker.io":                       registry + "/hub",
		"docker.io:5000/x":                "",
		"docker.io.evil.example/x":        "",
		"x/docker.io/library":             "",
		"quay.io:8443/x":                  registry,
		"quay.io/x":                       "",
		"quay.io/Team/x":                  registry + "/Q",
		"quay.io/team/x":                  "", // paths know case
		"old.cloud.example/x":             registry,
		registry + "/x":                   "",
	} {
		got := ""
		if rule, ok := m.Find(image); ok {
			got = strings.TrimSuffix(rule.Target+"/"+rule.Path, "/")
		}
		if got != want {
			t.Errorf("%s is found at %q, want %q", image, got, want)
		}
	}
}

func TestScope(t *testing.T) {
	m, err := mirror.Parse([]string{"docker.io/library=" + registry, "quay.io=" + registry}, options(mirror.OriginNone))
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]plugin.CacheKeyType{
		"docker.io": plugin.CacheImage, "Docker.io": plugin.CacheImage, "docker.io:443": plugin.CacheRegistry,
		"quay.io": plugin.CacheRegistry, registry: plugin.CacheRegistry,
	} {
		if got := m.Scope(host); got != want {
			t.Errorf("an answer for %s is good for %s, want %s", host, got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, test := range []struct {
		entries []string
		want    string
	}{
		{[]string{"docker.io"}, "SOURCE=TARGET"},
		{[]string{""}, "SOURCE=TARGET"},
		{[]string{"docker.io=" + registry + "=x"}, "SOURCE=TARGET"},
		{[]string{"=" + registry}, "must begin with host[:port]"},
		{[]string{"docker.io="}, "must begin with host[:port]"},
		{[]string{"nginx=" + registry}, "must begin with host[:port]"},
		{[]string{"docker.io/a b=" + registry}, "the path must be a repository path without a tag or digest"},
		{[]string{"docker.io//a=" + registry}, "the path must be a repository path without a tag or digest"},
		{[]string{"docker.io/nginx:1=" + registry}, "the path must be a repository path without a tag or digest"},
		{[]string{"docker.io/nginx@sha256:0=" + registry}, "the path must be a repository path without a tag or digest"},
		{[]string{"*.io=" + registry}, "wildcards are not supported; list each host"},
		{[]string{"docker.io=*.cloud.example"}, "wildcards are not supported; list each host"},
		{[]string{"https://docker.io=" + registry}, "remove the scheme"},
		{[]string{"docker.io=https://" + registry}, "remove the scheme"},
		{[]string{"user@docker.io=" + registry}, "must begin with host[:port]"},
		{[]string{"index.docker.io=" + registry}, "use docker.io"},
		{[]string{"registry-1.docker.io/x=" + registry}, "use docker.io"},
		{[]string{"docker.io=registry.example"}, "is not part of the cloud; allow it with --allow-host"},
		{[]string{"docker.io=" + registry, "docker.io=" + other}, "another target"},
		{[]string{"docker.io/a=" + registry, "docker.io/a/=" + other}, "another target"},
		{[]string{"a.cloud.example=a.cloud.example"}, "the target is also the source of"},
		{[]string{"a.cloud.example=b.cloud.example", "b.cloud.example=a.cloud.example"}, "the target is also the source of"},
		{[]string{"docker.io=a.cloud.example/hub/x", "a.cloud.example/hub=b.cloud.example"}, "the target is also the source of"},
	} {
		_, err := mirror.Parse(test.entries, options(mirror.OriginTrusted))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: got the error %v, want one with %q", test.entries, err, test.want)
		}
	}
}

// A credential for an origin of strangers needs a word.
func TestParseAsksForOrigin(t *testing.T) {
	_, err := mirror.Parse([]string{"docker.io=" + registry}, options(""))
	if err == nil || !strings.Contains(err.Error(), "--mirror-origin=none") {
		t.Errorf("got the error %v, want one that names --mirror-origin", err)
	}
	if _, err := mirror.Parse([]string{"old.cloud.example=" + registry}, options("")); err != nil {
		t.Errorf("a registry of the cloud itself: %v", err)
	}
	for value, want := range map[string]bool{"none": true, "trusted": true, "": false, "None": false} {
		var o mirror.Origin
		if err := o.UnmarshalText([]byte(value)); (err == nil) != want {
			t.Errorf("the value %q: %v", value, err)
		}
	}
}
