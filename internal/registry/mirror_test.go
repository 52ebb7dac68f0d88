// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registry_test

import (
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/registry"
	"github.com/regcred/regcred/plugin"
)

const (
	targetHost      = "target.cloud.example"
	otherTargetHost = "other.cloud.example:5000"
)

// mirrorOptions returns the options of a plugin that serves *.cloud.example.
func mirrorOptions(origin registry.MirrorOrigin) registry.MirrorOptions {
	return registry.MirrorOptions{
		IsServed: func(host string) bool {
			name, _, _ := strings.Cut(host, ":")
			return strings.HasSuffix(name, ".cloud.example")
		},
		Owner: "the cloud", Origin: string(origin),
	}
}

func TestFind(t *testing.T) {
	m := must.Get(registry.ParseMirrors([]string{
		"docker.io=" + targetHost + "/hub", "docker.io/library=" + otherTargetHost + "/official/",
		"quay.io:8443=" + targetHost, "QUAY.io:8443=" + targetHost + "/", "old.cloud.example=" + targetHost, "Quay.IO/Team=" + targetHost + "/Q",
	}, mirrorOptions(registry.OriginTrusted)))(t)
	for image, want := range map[string]string{
		"docker.io/team/app":              targetHost + "/hub",
		"docker.io/library/nginx":         otherTargetHost + "/official",
		"docker.io/library":               otherTargetHost + "/official",
		"docker.io/library:1":             otherTargetHost + "/official",
		"docker.io/library@sha256:00":     otherTargetHost + "/official",
		"docker.io/libraryteam/nginx":     targetHost + "/hub",
		"DOCKER.io/library/nginx":         otherTargetHost + "/official",
		"https://docker.io/library/nginx": otherTargetHost + "/official",
		"docker.io":                       targetHost + "/hub",
		"docker.io:5000/x":                "",
		"docker.io.evil.example/x":        "",
		"x/docker.io/library":             "",
		"quay.io:8443/x":                  targetHost,
		"quay.io/x":                       "",
		"quay.io/Team/x":                  targetHost + "/Q",
		"quay.io/team/x":                  "", // paths are case-sensitive
		"old.cloud.example/x":             targetHost,
		targetHost + "/x":                 "",
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
	m, err := registry.ParseMirrors([]string{"docker.io/library=" + targetHost, "quay.io=" + targetHost}, mirrorOptions(registry.OriginNone))
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]plugin.CacheKeyType{
		"docker.io": plugin.CacheImage, "Docker.io": plugin.CacheImage, "docker.io:443": plugin.CacheRegistry,
		"quay.io": plugin.CacheRegistry, targetHost: plugin.CacheRegistry,
	} {
		if got := m.CacheKeyType(host); got != want {
			t.Errorf("a response for %s is good for %s, want %s", host, got, want)
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
		{[]string{"docker.io=" + targetHost + "=x"}, "SOURCE=TARGET"},
		{[]string{"=" + targetHost}, "must begin with host[:port]"},
		{[]string{"docker.io="}, "must begin with host[:port]"},
		{[]string{"nginx=" + targetHost}, "must begin with host[:port]"},
		{[]string{"docker.io/a b=" + targetHost}, "the path must be a repository path without a tag or digest"},
		{[]string{"docker.io//a=" + targetHost}, "the path must be a repository path without a tag or digest"},
		{[]string{"docker.io/nginx:1=" + targetHost}, "the path must be a repository path without a tag or digest"},
		{[]string{"docker.io/nginx@sha256:0=" + targetHost}, "the path must be a repository path without a tag or digest"},
		{[]string{"*.io=" + targetHost}, "wildcards are not supported; list each host"},
		{[]string{"docker.io=*.cloud.example"}, "wildcards are not supported; list each host"},
		{[]string{"https://docker.io=" + targetHost}, "remove the scheme"},
		{[]string{"docker.io=https://" + targetHost}, "remove the scheme"},
		{[]string{"user@docker.io=" + targetHost}, "must begin with host[:port]"},
		{[]string{"index.docker.io=" + targetHost}, "use docker.io"},
		{[]string{"registry-1.docker.io/x=" + targetHost}, "use docker.io"},
		{[]string{"docker.io=target.example"}, "is not part of the cloud; allow it with --allow-host"},
		{[]string{"docker.io=" + targetHost, "docker.io=" + otherTargetHost}, "another target"},
		{[]string{"docker.io/a=" + targetHost, "docker.io/a/=" + otherTargetHost}, "another target"},
		{[]string{"a.cloud.example=a.cloud.example"}, "the target is also the source of"},
		{[]string{"a.cloud.example=b.cloud.example", "b.cloud.example=a.cloud.example"}, "the target is also the source of"},
		{[]string{"docker.io=a.cloud.example/hub/x", "a.cloud.example/hub=b.cloud.example"}, "the target is also the source of"},
	} {
		_, err := registry.ParseMirrors(test.entries, mirrorOptions(registry.OriginTrusted))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: got the error %v, want one with %q", test.entries, err, test.want)
		}
	}
}

// TestParseAsksForOrigin verifies that a source outside the cloud requires --mirror-origin.
func TestParseAsksForOrigin(t *testing.T) {
	_, err := registry.ParseMirrors([]string{"docker.io=" + targetHost}, mirrorOptions(""))
	if err == nil || !strings.Contains(err.Error(), "--mirror-origin=none") {
		t.Errorf("got the error %v, want one that names --mirror-origin", err)
	}
	if _, err := registry.ParseMirrors([]string{"old.cloud.example=" + targetHost}, mirrorOptions("")); err != nil {
		t.Errorf("a target of the cloud itself: %v", err)
	}
	for value, want := range map[string]bool{"none": true, "trusted": true, "": false, "None": false} {
		var o registry.MirrorOrigin
		if err := o.UnmarshalText([]byte(value)); (err == nil) != want {
			t.Errorf("the value %q: %v", value, err)
		}
	}
}
