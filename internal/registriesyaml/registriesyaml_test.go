// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package registriesyaml_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/registriesyaml"
)

const registriesFile = "/etc/rancher/k3s/registries.yaml"

func writeConfig(t testing.TB, text string) inroot.FS {
	t.Helper()
	root := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(root, filepath.Dir(registriesFile)), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(root, registriesFile), []byte(text), 0o600))
	return inroot.FS{Root: root}
}

// TestCheck verifies the finding for each mistake, and that valid files have no findings.
func TestCheck(t *testing.T) {
	const login = "    auth: {username: ci, password: " + canary.PasswordSecret + "}\n"
	const mirrored = "mirrors:\n  icr.io:\n    endpoint: [\"https://m.example:5000\"]\n"
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"empty":             {"", nil},
		"a comment":         {"# nothing\n", nil},
		"nothing":           {"null\n", nil},
		"an embedded one":   {"mirrors:\n  docker.io:\n  registry.k8s.io:\n  \"*\":\n", nil},
		"as it should be":   {mirrored + "configs:\n  \"m.example:5000\":\n" + login + "    tls:\n      ca_file: /ca.pem\n      insecure_skip_verify: true\n", nil},
		"for all":           {mirrored + "configs:\n  \"*\":\n" + login + "  icr.io:\n" + login, nil},
		"both logins":       {mirrored + "configs:\n  icr.io:\n" + login + "  \"m.example:5000\":\n" + login, nil},
		"a path":            {"mirrors:\n  icr.io:\n    endpoint: [\"https://m.example/v2/icr\", m.example, \"m.example/v2/\"]\n    rewrite: {\"^a/(.*)\": \"b/$1\"}\n", nil},
		"Windows line ends": {strings.ReplaceAll(mirrored, "\n", "\r\n"), nil},
		"a BOM":             {"\ufeff" + mirrored, nil},
		"an alias":          {"x-login: &l\n  auth: {username: ci, password: " + canary.PasswordSecret + "}\n" + mirrored + "configs:\n  \"m.example:5000\": *l\n", nil},
		"mirrros":           {"mirrros: {}\n", []string{"warning mirror-unknown-key 1 write mirrors"}},
		"endpoints":         {"mirrors:\n  icr.io:\n    endpoints: [\"https://m.example\"]\n", []string{"warning mirror-unknown-key 3 write endpoint"}},
		"a password alone":  {"configs:\n  a.example:\n    password: " + canary.PasswordSecret + "\n", []string{"warning mirror-unknown-key 3 valid keys: auth, tls"}},
		"user":              {"configs:\n  a.example:\n    auth:\n      user: ci\n", []string{"warning mirror-unknown-key 4 valid keys: username, password, auth, identity_token"}},
		"another's login":   {mirrored + "configs:\n  icr.io:\n" + login, []string{`info mirror-own-login 5 if the endpoint requires a credential, add one under configs: "m.example:5000":`}},
		"no /v2":            {"mirrors:\n  icr.io:\n    endpoint:\n    - \"https://ci:" + canary.PasswordSecret + "@m.example/icr\"\n", []string{"warning mirror-path 4 add /v2 to the path (https://m.example/v2/icr), or use rewrite"}},
		"no host":           {"mirrors:\n  icr.io:\n    endpoint: [\"https:///x\"]\n", []string{"warning mirror-path 3 use https://HOST[:PORT]"}},
		"a scheme":          {"mirrors:\n  https://icr.io/: {}\n", []string{"warning mirror-directory 2 write icr.io"}},
		"Docker Hub's name": {"mirrors:\n  registry-1.docker.io: {}\n", []string{"warning mirror-directory 2 use docker.io"}},
		"upper case":        {"mirrors:\n  ICR.io: {}\n", []string{"warning mirror-directory 2 write icr.io"}},
		"no YAML":           {"mirrors:\n\ticr.io: *" + canary.PasswordSecret + "\n", []string{"error registries-yaml 2 "}},
		"an unknown alias":  {"configs: *" + canary.PasswordSecret + "\n", []string{"error registries-yaml 1 "}},
		"a list":            {"- mirrors\n", []string{"error registries-yaml 1 use mirrors: and configs: as top-level keys"}},
	} {
		t.Run(name, func(t *testing.T) {
			found := must.Get(registriesyaml.Check(writeConfig(t, tt.text), registriesFile, "k3s"))(t)
			var got []string
			for _, f := range found {
				got = append(got, fmt.Sprintf("%s %s %d %s", f.Severity, f.Rule, f.Line, f.Fix))
				canary.AssertAbsent(t, "a finding", fmt.Sprint(f))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s\n%v", diff, found)
			}
		})
	}
	if _, err := registriesyaml.Check(inroot.FS{Root: t.TempDir()}, registriesFile, "k3s"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := registriesyaml.Check(writeConfig(t, strings.Repeat("#\n", 1<<20)), registriesFile, "k3s"); err == nil {
		t.Error("a file of 2 MB is read")
	}
}

// FuzzCheck verifies that Check can read any file and returns a limited number of findings.
func FuzzCheck(f *testing.F) {
	f.Add("mirrors:\n  a:\n    endpoint: [b]\nconfigs: {a: {auth: {username: x}}}\n")
	f.Add("a: &a [*a]\n")
	f.Add("mirrors: &m\n  a: *m\n")
	root := writeConfig(f, "")
	f.Fuzz(func(t *testing.T, text string) {
		must.Do(t, os.WriteFile(filepath.Join(root.Root, registriesFile), []byte(text), 0o600))
		if found, err := registriesyaml.Check(root, registriesFile, "k3s"); err == nil && len(found) > 50 {
			t.Errorf("%d findings", len(found))
		}
	})
}
