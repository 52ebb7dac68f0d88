// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"maps"
	"strings"
	"testing"
)

// Tests that need a Keyring are in keyring_test.go. It has an external test package, because
// package regcred imports this package.

// AuthKeyForImage makes authKeyForImage available to keyring_test.go.
var AuthKeyForImage = authKeyForImage

func TestImageKey(t *testing.T) {
	for image, want := range map[string]string{
		"registry.example/team/app":      "registry.example/team/app",
		"registry.example:5000/app":      "registry.example:5000/app",
		"docker.io/library/nginx":        "docker.io/library/nginx",
		"localhost/app":                  "localhost/app",
		"registry.example/v1/app":        "registry.example/v2/v1/app",
		"registry.example/v2/v2/app":     "registry.example/v2/v2/v2/app",
		"registry.example/v1":            "registry.example/v1",
		"registry.example/v10/app":       "registry.example/v10/app",
		"[::1]:5000/app":                 "[::1]:5000/app",
		"[::1]/app":                      "*/app",
		"[2001:db8::1]/v1/app":           "*/v2/v1/app",
		"registry.example":               "registry.example",
		"REGISTRY.example/team_a/b--c.d": "REGISTRY.example/team_a/b--c.d",
	} {
		if got := authKeyForImage(image); got != want {
			t.Errorf("%s: got %s, want %s", image, got, want)
		}
		if auth := map[string]AuthConfig{authKeyForImage(image): {Username: "u"}}; !foundAttempt(image, auth, "u") {
			t.Errorf("%s: its key does not match it", image)
		}
	}
}

func foundAttempt(image string, auth map[string]AuthConfig, user string) bool {
	got, ok := firstCredential(image, auth)
	return ok && got.Username == user
}

func TestFirstKeyForImage(t *testing.T) {
	for name, tt := range map[string]struct {
		image string
		keys  string // auth keys, separated by spaces
		want  string // the user name of the response; "" if there is no credential
	}{
		"none":                 {"registry.example/a", "", ""},
		"the host":             {"registry.example/a", "other.example registry.example", "registry.example"},
		"the longest path":     {"registry.example/team/a", "registry.example registry.example/team registry.example/team/b", "registry.example/team"},
		"a prefix of the text": {"registry.example/team-b/a", "registry.example/team", "registry.example/team"},
		"a name, not a glob":   {"registry.example/a", "*.example registry.example r*.example", "registry.example"},
		"the last glob":        {"registry.example/a", "*.example r*.example re*.example", "re*.example"},
		"one label":            {"a.b.example/a", "*.example *.*.example", "*.*.example"},
		"a port":               {"registry.example:5000/a", "registry.example registry.example:5000 registry.example:443", "registry.example:5000"},
		"an empty port":        {"registry.example/a", "registry.example:", "registry.example:"},
		"case":                 {"registry.example/a", "REGISTRY.example", ""},
		"a URL":                {"registry.example/a", "https://user@registry.example/v1/a?x=y#z registry.example", "https://user@registry.example/v1/a?x=y#z"},
		"a path of a slash":    {"registry.example/a", "http://registry.example/", "http://registry.example/"},
		"no URL":               {"registry.example/a", "registry.example:x registry.example%", ""},
		"the same twice":       {"registry.example/a", "registry.example https://registry.example", "https://registry.example"},
		"an escape":            {"registry.example/a", "registry.example/%61", "registry.example/%61"},
		"brackets and a port":  {"[::1]:5000/a", "[::1]:5000 [::1]", "[::1]:5000"},
		"brackets":             {"[::1]/a", "[::1]", ""},
		"a bad image":          {"registry.example:x/a", "registry.example *", ""},

		"Docker Hub":               {"docker.io/library/nginx", "https://index.docker.io/v1/ registry.example", "https://index.docker.io/v1/"},
		"Docker Hub by its name":   {"docker.io/library/nginx", "index.docker.io docker.io", "docker.io"},
		"Docker Hub, other path":   {"docker.io/library/nginx", "index.docker.io/team", ""},
		"Docker Hub, old name":     {"index.docker.io/library/nginx", "index.docker.io", "index.docker.io"},
		"a name without dots":      {"localhost/a", "index.docker.io", "index.docker.io"},
		"a port without dots":      {"localhost:5000/a", "index.docker.io", ""},
		"another registry":         {"registry.example/a", "index.docker.io", ""},
		"an image without a slash": {"nginx", "index.docker.io", "index.docker.io"},
		"no image":                 {"/nginx", "index.docker.io", ""},
	} {
		auth := map[string]AuthConfig{}
		for _, key := range strings.Fields(tt.keys) {
			auth[key] = AuthConfig{Username: key}
		}
		got, ok := firstCredential(tt.image, maps.Clone(auth))
		if got.Username != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: got %q (%v), want %q", name, got.Username, ok, tt.want)
		}
	}
}
