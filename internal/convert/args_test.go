// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

// TestAddArgs verifies that arguments are inserted before the existing ones, in files of any
// formatting, without other changes.
func TestAddArgs(t *testing.T) {
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: CredentialProviderConfig\nproviders:\n"
	const rest = "  matchImages: [r.example]\n  defaultCacheDuration: 1h\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n"
	for name, tt := range map[string]struct{ text, want string }{
		"no arguments": {
			head + "# why\n- name: a\n" + rest + "- name: b\n" + rest,
			head + "# why\n- name: a\n  args:\n  - \"--x=1\"\n  - \"--y\"\n" + rest + "- name: b\n" + rest,
		},
		"a list": {
			head + "- name: a\n  args:\n    - c # first\n    - d\n" + rest,
			head + "- name: a\n  args:\n    - \"--x=1\"\n    - \"--y\"\n    - c # first\n    - d\n" + rest,
		},
		"a list at the field's own column": {
			head + "- args:\n  - c\n  name: a\n" + rest,
			head + "- args:\n  - \"--x=1\"\n  - \"--y\"\n  - c\n  name: a\n" + rest,
		},
		"brackets": {
			head + "- name: a\n  args: [c, 'd']\n" + rest,
			head + "- name: a\n  args: [\"--x=1\", \"--y\", c, 'd']\n" + rest,
		},
		"empty brackets": {
			head + "- name: a\n  args: []\n" + rest,
			head + "- name: a\n  args: [\"--x=1\", \"--y\"]\n" + rest,
		},
		"JSON": {
			"{\n\t\"apiVersion\": \"kubelet.config.k8s.io/v1\",\n\t\"kind\": \"CredentialProviderConfig\",\n\t\"providers\": [\n\t\t{\n\t\t\t\"name\": \"a\",\n" +
				"\t\t\t\"matchImages\": [\"r.example\"],\n\t\t\t\"defaultCacheDuration\": \"1h\",\n\t\t\t\"apiVersion\": \"credentialprovider.kubelet.k8s.io/v1\"\n\t\t}\n\t]\n}",
			"{\n\t\"apiVersion\": \"kubelet.config.k8s.io/v1\",\n\t\"kind\": \"CredentialProviderConfig\",\n\t\"providers\": [\n\t\t{\n\t\t\t\"name\": \"a\",\n" +
				"\t\t\t\"args\": [\"--x=1\", \"--y\"],\n\t\t\t\"matchImages\": [\"r.example\"],\n\t\t\t\"defaultCacheDuration\": \"1h\",\n\t\t\t\"apiVersion\": \"credentialprovider.kubelet.k8s.io/v1\"\n\t\t}\n\t]\n}",
		},
		"JSON on one line": {
			`{"apiVersion":"kubelet.config.k8s.io/v1","kind":"CredentialProviderConfig","providers":[{"name":"a","matchImages":["r.example"],"defaultCacheDuration":"1h","apiVersion":"credentialprovider.kubelet.k8s.io/v1"}]}`,
			`{"apiVersion":"kubelet.config.k8s.io/v1","kind":"CredentialProviderConfig","providers":[{"name":"a","args": ["--x=1", "--y"], "matchImages":["r.example"],"defaultCacheDuration":"1h","apiVersion":"credentialprovider.kubelet.k8s.io/v1"}]}`,
		},
		"flow in YAML": {
			head + "- {name: a, matchImages: [r.example], defaultCacheDuration: 1h, apiVersion: credentialprovider.kubelet.k8s.io/v1}\n",
			head + "- {name: a, \"args\": [\"--x=1\", \"--y\"], matchImages: [r.example], defaultCacheDuration: 1h, apiVersion: credentialprovider.kubelet.k8s.io/v1}\n",
		},
		"umlauts": {
			head + "- name: a # über\n  env: [{name: Ä, value: ö}]\n  args: [ü]\n" + rest,
			head + "- name: a # über\n  env: [{name: Ä, value: ö}]\n  args: [\"--x=1\", \"--y\", ü]\n" + rest,
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, t.TempDir(), "config.yaml", tt.text)
			cfg := must.Get(config.Load(path))(t)
			files := must.Get(AddArgs(cfg, map[int][]string{0: {"--x=1", "--y"}}))(t)
			if got := string(files[0].Data); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
			if got := applyPatch(t, path, files[0].Diff()); got != tt.want {
				t.Errorf("patched:\n%s\nby\n%s", got, files[0].Diff())
			}
		})
	}
}

// applyPatch applies diff to the file with the program patch, and returns the file's new content.
func applyPatch(t *testing.T, path, diff string) string {
	t.Helper()
	if _, err := exec.LookPath("patch"); err != nil {
		t.Skip("patch is not installed, by which an operator applies the diff; test.sh installs it on Debian")
	}
	cmd := exec.Command("patch", "--silent", path)
	cmd.Stdin = strings.NewReader(diff)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("patch: %v\n%s\n%s", err, out, diff)
	}
	data := must.Get(os.ReadFile(path))(t)
	return string(data)
}

// TestAddArgsNotThere verifies that AddArgs returns an error if the file's formatting prevents an
// insertion. The error contains no values from the file.
func TestAddArgsNotThere(t *testing.T) {
	const head = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
	const rest = "  matchImages: [r.example]\n  defaultCacheDuration: 1h\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n"
	for name, text := range map[string]string{
		"null":          head + "- name: a\n  args:\n" + rest,
		"shared by two": head + "- name: a\n  args: &x [" + canary.ArgSecret + "]\n" + rest + "- name: b\n  args: *x\n" + rest,
		"UTF-16":        asUTF16(head + "- name: a\n" + rest),
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := config.Parse("config.yaml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			_, err = AddArgs(cfg, map[int][]string{len(cfg.Providers) - 1: {"--x", "--y=" + strings.Repeat("y", 200)}})
			if err == nil || !strings.Contains(err.Error(), "manually") || !strings.HasPrefix(err.Error(), "config.yaml") {
				t.Fatalf("got the error %v", err)
			}
			if all := "--x --y=" + strings.Repeat("y", 200); !strings.HasSuffix(err.Error(), all) {
				t.Errorf("the error %q does not name all arguments", err)
			}
			canary.AssertAbsent(t, "the error", err.Error())
		})
	}
}

// TestAddArgsNamesProviders verifies that the error names every provider that needs arguments.
func TestAddArgsNamesProviders(t *testing.T) {
	const rest = "  matchImages: [r.example]\n  defaultCacheDuration: 1h\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n"
	text := "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- name: a\n  args: &x [c]\n" + rest +
		"- name: b\n  args: *x\n" + rest + "- name: c\n" + rest
	cfg, err := config.Parse("config.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	_, err = AddArgs(cfg, map[int][]string{0: {"--x", "--y"}, 2: {"--z"}})
	if want := "manually: config.yaml:4:3: --x --y; config.yaml:14:3: --z"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got the error %v, want %q", err, want)
	}
}

// asUTF16 encodes ASCII text as UTF-16 with a byte order mark. Kubelets accept such files.
func asUTF16(s string) string {
	b := []byte{0xff, 0xfe}
	for _, c := range []byte(s) {
		b = append(b, c, 0)
	}
	return string(b)
}

// TestAddArgsDirectory verifies that in a directory only the file with the provider changes.
func TestAddArgsDirectory(t *testing.T) {
	dir := t.TempDir()
	one := strings.ReplaceAll(v1beta1Config, "v1beta1", "v1")
	writeFile(t, dir, "10.yaml", one)
	writeFile(t, dir, "20.yaml", strings.ReplaceAll(one, "name: ", "name: x"))
	cfg := must.Get(config.Load(dir))(t)
	files := must.Get(AddArgs(cfg, map[int][]string{len(cfg.Providers) - 1: {"--x"}}))(t)
	if files[0].Diff() != "" || files[0].IsChanged() {
		t.Errorf("the first file changes: %s", files[0].Diff())
	}
	if got := files[1].Diff(); !strings.HasPrefix(got, "--- "+filepath.Join(dir, "20.yaml")+"\n") || !strings.Contains(got, "\n+") {
		t.Errorf("the second file: %q", got)
	}
}

// TestDiffShowsNoOtherLine verifies that the diff shows only the changed line, even if an equal
// line follows later. The lines in between contain secrets.
func TestDiffShowsNoOtherLine(t *testing.T) {
	const list = "  args: [get-credentials]\n"
	between := strings.Repeat("  name: PASSWORD\n  value: "+canary.ArgSecret+"\n", 3)
	text := "a\n" + list + between + list + "z\n"
	f := File{"with a blank.yaml", []byte(strings.Replace(text, "[", "[\"--x\", ", 1)), []byte(text)}
	diff := f.Diff()
	canary.AssertAbsent(t, "the diff", diff)
	if want := "--- with a blank.yaml\t\n+++ with a blank.yaml\t\n@@ -2,1 +2,1 @@\n-" + list + "+  args: [\"--x\", get-credentials]\n"; diff != want {
		t.Errorf("got\n%s\nwant\n%s", diff, want)
	}
	path := writeFile(t, t.TempDir(), f.Name, text)
	if got := applyPatch(t, path, diff); got != string(f.Data) {
		t.Errorf("patched: %s", got)
	}
}

// TestDiffFindsItsFile verifies that patch finds a file with a space in its name.
func TestDiffFindsItsFile(t *testing.T) {
	if _, err := exec.LookPath("patch"); err != nil {
		t.Skip("patch is not installed, by which an operator applies the diff; test.sh installs it on Debian")
	}
	dir := t.TempDir()
	f := File{"with a blank.yaml", []byte("b\n"), []byte("a\n")}
	path := writeFile(t, dir, f.Name, "a\n")
	cmd := exec.Command("patch", "--silent", "--batch", "-p0", "-d", dir)
	cmd.Stdin = strings.NewReader(f.Diff())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("patch: %v\n%s", err, out)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "b\n" {
		t.Errorf("got %q, %v", data, err)
	}
}
