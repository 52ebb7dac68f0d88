// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package executable

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

func TestNear(t *testing.T) {
	const rename, name = "rename the file, or use its name in the configuration", "ecr-credential-provider"
	for title, tt := range map[string]struct {
		there      []string
		near, cure string
	}{
		"nothing":              {nil, "", ""},
		"others":               {[]string{"gcr-credential-provider", "acr-credential-provider", "README.md", "x"}, "", ""},
		"itself":               {[]string{name}, "", ""},
		"case":                 {[]string{"ECR-Credential-Provider"}, "ECR-Credential-Provider", rename},
		"underscores":          {[]string{"ecr_credential_provider"}, "ecr_credential_provider", rename},
		"exe":                  {[]string{name + ".exe"}, name + ".exe", rename},
		"platform":             {[]string{name + "-linux-amd64"}, name + "-linux-amd64", rename},
		"platform, other":      {[]string{name + "_linux_x86_64"}, name + "_linux_x86_64", rename},
		"version":              {[]string{name + "-v1.33.2"}, name + "-v1.33.2", rename},
		"version and platform": {[]string{name + "_1.30.0-rc.1_linux-arm64"}, name + "_1.30.0-rc.1_linux-arm64", rename},
		"archive":              {[]string{name + "-linux-amd64.tar.gz"}, name + "-linux-amd64.tar.gz", "extract it"},
		"zip":                  {[]string{name + ".zip"}, name + ".zip", "extract it"},
		"directory":            {[]string{name + "-v1/" + name}, name + "-v1/" + name, "move the file to the plugin directory"},
		"directory without":    {[]string{name + "/other"}, "", ""},
		"a letter less":        {[]string{"ecr-credental-provider"}, "ecr-credental-provider", rename},
		"swapped letters":      {[]string{"ecr-credential-provdier"}, "ecr-credential-provdier", rename},
		"best":                 {[]string{name + ".tar.gz", name + "-linux-amd64", "ecr-credental-provider"}, name + "-linux-amd64", rename},
		"taken":                {[]string{"ecr-credential-provider-2"}, "", ""},
	} {
		t.Run(title, func(t *testing.T) {
			dir := t.TempDir()
			for _, file := range tt.there {
				path := filepath.Join(dir, filepath.FromSlash(file))
				must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
				must.Do(t, os.WriteFile(path, nil, 0o700))
			}
			taken := func(name string) bool { return name == "ecr-credential-provider-2" }
			if near, cure := FindSimilar(dir, name, taken); filepath.ToSlash(near) != tt.near || cure != tt.cure {
				t.Errorf("got %q: %q, want %q: %q", near, cure, tt.near, tt.cure)
			}
		})
	}
	if near, _ := FindSimilar(filepath.Join(t.TempDir(), "none"), name, nil); near != "" {
		t.Errorf("%q in no directory", near)
	}
}

func TestDangling(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must.Do(t, os.WriteFile(at("file"), nil, 0o600))
	for name, target := range map[string]string{"good": "file", "bad": "nowhere", "deep": "opt/bin/plugin", "absolute": at("a/b/c"), "second": "deep", "loop": "loop"} {
		if err := os.Symlink(target, at(name)); err != nil {
			t.Skip("this user may not make symbolic links, as on Windows: ", err)
		}
	}
	for name, want := range map[string][2]string{
		"file": {}, "good": {}, "none": {}, "loop": {}, "": {},
		"bad":      {"nowhere", at("nowhere")},
		"deep":     {"opt/bin/plugin", at("opt")},
		"absolute": {at("a/b/c"), at("a")},
		"second":   {"deep", at("opt")},
	} {
		if target, missing := FollowDanglingLink(at(name)); target != want[0] || missing != want[1] {
			t.Errorf("%s: got %q, %q, want %q", name, target, missing, want)
		}
	}
}
