// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerconfig

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestScope(t *testing.T) {
	for key, want := range map[string]string{
		"r.io":                         "r.io",
		"r.io/":                        "r.io",
		"r.io:5000":                    "r.io:5000",
		"https://r.io":                 "r.io",
		"http://r.io:5000/":            "r.io:5000",
		"https://r.io/v1/":             "r.io",
		"https://r.io/v2":              "r.io",
		"r.io/v1/":                     "r.io",
		"r.io/v1":                      "r.io/v1", // a namespace
		"r.io/v2/app":                  "r.io/v2/app",
		"r.io/team/app":                "r.io/team/app",
		"r.io/team//":                  "r.io/team",
		"https://r.io/team":            "r.io/team",
		"https://index.docker.io/v1/":  "docker.io",
		"index.docker.io/v1/":          "docker.io",
		"index.docker.io":              "docker.io",
		"docker.io":                    "docker.io",
		"docker.io/library":            "docker.io/library",
		"https://registry-1.docker.io": "docker.io",
		"":                             "",
	} {
		if got := Scope(key); got != want {
			t.Errorf("Scope(%q) = %q, want %q", key, got, want)
		}
	}
}

func TestFind(t *testing.T) {
	tests := []struct {
		name  string
		keys  []string
		image string
		want  []string
		paths bool
	}{
		{"host", []string{"r.io", "s.io", "r.io:5000"}, "r.io/team/app", []string{"r.io"}, false},
		{"port", []string{"r.io", "r.io:5000"}, "r.io:5000/app", []string{"r.io:5000"}, false},
		{"longest path first", []string{"r.io", "r.io/team", "r.io/team/app", "r.io/other"}, "r.io/team/app", []string{"r.io/team/app", "r.io/team", "r.io"}, true},
		{"whole segments", []string{"r.io/team", "r.io/te"}, "r.io/team-b/app", nil, true},
		{"case", []string{"R.io"}, "r.io/app", nil, false},
		{"written alike first", []string{"https://r.io/v1/", "http://r.io", "r.io"}, "r.io/app", []string{"r.io", "http://r.io", "https://r.io/v1/"}, false},
		{"hub", []string{"https://index.docker.io/v1/", "docker.io", "docker.io/library"}, "docker.io/library/nginx", []string{"docker.io/library", "docker.io", "https://index.docker.io/v1/"}, true},
		{"lookalikes", []string{"r.io.evil.example", "evil-r.io", "io", "evil.example/r.io"}, "r.io/app", nil, false},
		{"pattern", []string{"*.r.io", "a.r.io", "*.*.io", "*.io"}, "a.r.io/app", []string{"a.r.io", "*.r.io", "*.*.io"}, false},
		{"pattern with a path", []string{"*.r.io/team"}, "a.r.io/other", nil, true},
		{"bare host", []string{"r.io", "r.io/team"}, "r.io", []string{"r.io"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := &File{Auths: map[string]Auth{}}
			for _, key := range tt.keys {
				file.Auths[key] = Auth{Username: key}
			}
			var got []string
			for _, m := range file.Find(tt.image) {
				if m.Auth.Username != m.Key || m.Scope != Scope(m.Key) {
					t.Errorf("key %q: scope %q, credential of %q", m.Key, m.Scope, m.Auth.Username)
				}
				got = append(got, m.Key)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			host := tt.image[:len(tt.image)-len(commandPath(tt.image))]
			if got := file.HasPaths(host); got != tt.paths {
				t.Errorf("HasPaths(%q) = %v", host, got)
			}
		})
	}
}

// commandPath returns the part of an image from its first slash.
func commandPath(image string) string {
	for i := range image {
		if image[i] == '/' {
			return image[i:]
		}
	}
	return ""
}

func TestFileHelper(t *testing.T) {
	tests := []struct {
		name         string
		file         File
		registry     string
		want, server string
	}{
		{"none", File{}, "r.io", "", "r.io"},
		{"exact", File{CredHelpers: map[string]string{"r.io": "a"}, CredsStore: "b"}, "r.io", "a", "r.io"},
		{"port", File{CredHelpers: map[string]string{"r.io": "a", "r.io:5000": "p"}}, "r.io:5000", "p", "r.io:5000"},
		{"no pattern", File{CredHelpers: map[string]string{"*.io": "a"}}, "r.io", "", "r.io"},
		{"store", File{CredHelpers: map[string]string{"s.io": "a"}, CredsStore: "b"}, "r.io", "b", "r.io"},
		{"not the store", File{CredHelpers: map[string]string{"r.io": ""}, CredsStore: "b"}, "r.io", "", "r.io"},
		{"hub in the store", File{CredsStore: "b"}, "docker.io", "b", "https://index.docker.io/v1/"},
		{"hub, docker", File{CredHelpers: map[string]string{"https://index.docker.io/v1/": "a", "docker.io": "c"}}, "docker.io", "a", "https://index.docker.io/v1/"},
		{"hub, podman", File{CredHelpers: map[string]string{"docker.io": "c"}}, "docker.io", "c", "docker.io"},
		{"hub by another name", File{CredHelpers: map[string]string{"index.docker.io": "d"}}, "docker.io", "d", "index.docker.io"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name, server := tt.file.Helper(tt.registry)
			if got, want := fmt.Sprintf("%q %q", name, server), fmt.Sprintf("%q %q", tt.want, tt.server); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}
