// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin_test

import (
	"strings"
	"testing"

	"github.com/regcred/regcred/plugin"
)

func TestRegistry(t *testing.T) {
	for image, want := range map[string]string{
		"registry.example/team/app":          "registry.example",
		"registry.example:5000/team/app":     "registry.example:5000",
		"docker.io/library/nginx":            "docker.io",
		"Registry.Example/app":               "Registry.Example",
		"[::1]:5000/app":                     "[::1]:5000",
		"[::1]/app":                          "[::1]",
		"https://registry.example/app":       "registry.example",
		"registry.example/app:v1":            "registry.example",
		"registry.example/app@sha256:0":      "registry.example",
		"registry.example:5000":              "registry.example:5000",
		"registry.example":                   "registry.example",
		"registry.example:v1":                "registry.example",
		"registry.example@sha256:0":          "registry.example",
		"registry.example/a@sha256:0/b.evil": "registry.example",
		"[::1]":                              "[::1]",
		"[::1]:v1":                           "[::1]",
		"registry.example/a://evil/b":        "registry.example",
		"":                                   "",
		"[ab].example/app":                   "",
		"a[b]/app":                           "",
		"[::1/app":                           "",
		"[::1]x/app":                         "",
		"::1/app":                            "",
		"/app":                               "",
		":5000/app":                          "",
		"registry.example:port/app":          "",
		"registry.example:/app":              "",
		"user@registry.example/app":          "",
		"registry example/app":               "",
		"registry.example\\@evil/app":        "",
		"registry.example?x/app":             "",
		"registry.example#x/app":             "",
		"régistry.example/app":               "",
	} {
		req := &plugin.Request{Image: image}
		if got := req.Registry(); got != want {
			t.Errorf("%q: got %q, want %q", image, got, want)
		}
	}
}

// FuzzRegistry verifies that Registry returns a host, and that the image starts with this host.
func FuzzRegistry(f *testing.F) {
	f.Add("registry.example:5000/team/app")
	f.Add("https://[::1]/x@y")
	f.Fuzz(func(t *testing.T, image string) {
		req := &plugin.Request{Image: image}
		host := req.Registry()
		if strings.ContainsAny(host, "/@?# \\\t\n%") {
			t.Errorf("%q: host %q", image, host)
		}
		if scheme, rest, found := strings.Cut(image, "://"); found && !strings.Contains(scheme, "/") {
			image = rest
		}
		if !strings.HasPrefix(image, host) {
			t.Errorf("%q does not begin with %q", image, host)
		}
	})
}
