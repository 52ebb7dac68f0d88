// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package dockerclient

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/dockerconfig"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/flock"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// testEnv returns an environment in which clients' files are below dir. more contains further
// variables.
func testEnv(t *testing.T, dir string, more map[string]string) Env {
	t.Helper()
	return Env{Dir: dir, Getenv: func(name string) string {
		if v, ok := more[name]; ok {
			return v
		}
		return map[string]string{"HOME": dir, "XDG_RUNTIME_DIR": filepath.Join(dir, "run")}[name]
	}}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	writeTestFile(t, path, text, 0o600)
}

// TestSessionMerges verifies that podman's files are merged, and that the first file with an entry
// for a host takes precedence.
func TestSessionMerges(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "run/containers/auth.json"), `{"auths": {"a.example": {"auth": "MTox"}, "b.example/team": {"auth": "MTox"}, "empty.example": {}}, "credHelpers": {"c.example": "one"}}`)
	writeFile(t, filepath.Join(dir, ".config/containers/auth.json"), `{"auths": {"a.example": {"auth": "Mjoy"}, "a.example/team": {"auth": "Mjoy"}, "b.example": {"auth": "Mjoy"}, "c.example": {"auth": "Mjoy"}, "empty.example": {"auth": "Mjoy"}}, "credHelpers": {"a.example": "two", "b.example": "two", "d.example": "two"}, "x": 1}`)
	writeFile(t, filepath.Join(dir, ".docker/config.json"), `{"auths": {"https://a.example/v2/": {"auth": "Mzoz"}, "https://index.docker.io/v1/": {"auth": "Mzoz"}}, "credHelpers": {"d.example": "three", "ours.example": "three"}, "credsStore": "three"}`)
	s := must.Get(NewSession(testEnv(t, dir, nil), SessionOptions{Hosts: []string{"ours.example", "docker.io"}}))(t)
	defer s.Close()
	if got := filepath.Dir(s.dir); got != filepath.Join(dir, "run") {
		t.Errorf("it is in %s", got)
	}
	want := `{
	"auths": {
		"a.example": {
			"auth": "MTox"
		},
		"b.example": {
			"auth": "Mjoy"
		},
		"b.example/team": {
			"auth": "MTox"
		},
		"empty.example": {
			"auth": "Mjoy"
		},
		"https://index.docker.io/v1/": {
			"auth": "Mzoz"
		}
	},
	"credHelpers": {
		"c.example": "one",
		"d.example": "two",
		"docker.io": "regcred",
		"ours.example": "regcred"
	}
}
`
	if diff := cmp.Diff(want, readTestFile(t, s.authFile())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want = `{"credHelpers": {"ours.example": "regcred","https://index.docker.io/v1/": "regcred","d.example": "three"}`
	if got := readTestFile(t, filepath.Join(s.dir, "docker/config.json")); !strings.Contains(strings.ReplaceAll(got, `"auths": {"https://a.example/v2/": {"auth": "Mzoz"}, "https://index.docker.io/v1/": {"auth": "Mzoz"}}, `, ""), want) {
		t.Errorf("got %s", got)
	}
}

// TestSessionAuthFileAlone verifies that REGISTRY_AUTH_FILE replaces all other files, as it does
// for podman.
func TestSessionAuthFileAlone(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, ".docker/config.json"), `{"auths": {"docker.example": {"auth": "Mzoz"}}}`)
	writeFile(t, filepath.Join(dir, "mine.json"), `{"auths": {"mine.example": {"auth": "MTox"}}}`)
	s, err := NewSession(testEnv(t, dir, map[string]string{"REGISTRY_AUTH_FILE": "mine.json"}), SessionOptions{Hosts: []string{"ours.example"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := readTestFile(t, s.authFile()); !strings.Contains(got, "mine.example") || strings.Contains(got, "docker.example") {
		t.Errorf("got %s", got)
	}
}

// TestSessionLogins verifies that clients find the credentials of a session, even if the user's
// file has a store, a helper or another credential for the host.
func TestSessionLogins(t *testing.T) {
	login := func(repository, user string) Credential {
		return Credential{Repository: repository, Username: user, Password: plugin.NewSecret(canary.PasswordSecret)}
	}
	for name, config := range map[string]string{
		"none":        "",
		"store":       `{"credsStore": "desktop", "auths": {"registry.example": {}}}`,
		"helper":      `{"credHelpers": {"registry.example": "pass", "x.example": "pass"}}`,
		"another":     `{"auths": {"https://registry.example/v2/": {"auth": "bzpv"}, "registry.example": {"auth": "bzpv"}, "x.example": {"auth": "bzpv"}}}`,
		"our own":     "{\n\t\"credHelpers\": {\n\t\t\"registry.example\": \"regcred\"\n\t},\n\t\"credsStore\": \"regcred\"\n}",
		"Docker Hub":  `{"auths": {"docker.io": {"auth": "bzpv"}, "https://index.docker.io/v1/": {"auth": "bzpv"}}}`,
		"other cases": `{"AUTHS": {}, "CredHelpers": {}, "credsstore": "desktop"}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if config != "" {
				writeFile(t, filepath.Join(dir, ".docker/config.json"), config)
			}
			s, err := NewSession(testEnv(t, dir, nil), SessionOptions{Credentials: []Credential{
				login("registry.example/a", "a"), login("registry.example/a/b", "a"), login("docker.io/library/nginx", "hub"),
				login("two.example/c", "c"), login("two.example/d", "d"),
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if len(s.Differing) != 1 || s.Differing[0].Repository != "two.example/d" {
				t.Errorf("differ: %v", s.Differing)
			}
			docker := parseConfig(t, filepath.Join(s.dockerDir(), "config.json"))
			for host, want := range map[string]string{"registry.example": "a", "docker.io": "hub", "two.example": "c"} {
				if helper, _ := docker.Helper(host); helper != "" {
					t.Errorf("%s: helper %q", host, helper)
				}
				if found := docker.Find(host + "/x"); len(found) != 1 || found[0].Auth.Username != want {
					t.Errorf("%s: got %v, want %s", host, found, want)
				}
			}
			podman := parseConfig(t, s.authFile())
			for image, want := range map[string]string{"registry.example/a": "a", "registry.example/a/b": "a", "docker.io/library/nginx": "hub", "two.example/c": "c", "two.example/d": "d"} {
				if helper, _ := podman.Helper(strings.Split(image, "/")[0]); helper != "" {
					t.Errorf("%s: podman's helper %q", image, helper)
				}
				if found := podman.Find(image); len(found) == 0 || found[0].Auth.Username != want || found[0].Auth.Password.Reveal() != canary.PasswordSecret {
					t.Errorf("%s: got %v, want %s", image, found, want)
				}
			}
			if found := podman.Find("two.example/e"); len(found) > 0 {
				t.Errorf("two.example/e: got %v", found)
			}
			if strings.Contains(config, "x.example") && docker.CredHelpers["x.example"] == "" && len(docker.Find("x.example/y")) == 0 {
				t.Error("the user's entry for x.example is missing")
			}
		})
	}
}

func parseConfig(t *testing.T, path string) *dockerconfig.File {
	t.Helper()
	f, err := dockerconfig.ParseFile([]byte(readTestFile(t, path)))
	if err != nil {
		t.Fatalf("%s: %v\n%s", path, err, readTestFile(t, path))
	}
	return f
}

// TestSessionRefuses verifies that NewSession fails if a user's file is invalid. The error must not
// contain the file's content, and no directory may be left.
func TestSessionRefuses(t *testing.T) {
	for name, path := range map[string]string{"docker's": ".docker/config.json", "podman's": ".config/containers/auth.json"} {
		for _, text := range []string{`{"auths": "open-sesame"`, `{"auths": "open-sesame"}`, `{"credHelpers": ["open-sesame"]}`} {
			dir := t.TempDir()
			writeFile(t, filepath.Join(dir, path), text)
			writeFile(t, filepath.Join(dir, "run", "x"), "")
			_, err := NewSession(testEnv(t, dir, nil), SessionOptions{Hosts: []string{"a.example"}})
			if err == nil || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "sesame") {
				t.Errorf("%s, %s: got %v", name, text, err)
			}
			checkOnlyFiles(t, filepath.Join(dir, "run"), "x")
		}
	}
}

// TestSessionsAtOnce verifies that concurrent sessions do not remove each other's directories.
func TestSessionsAtOnce(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "run", "x"), "")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			s, err := NewSession(testEnv(t, dir, nil), SessionOptions{Hosts: []string{"a.example"}})
			if err != nil {
				t.Error(err)
				return
			}
			if s.IsChanged() {
				t.Error("its file is gone or another")
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	checkOnlyFiles(t, filepath.Join(dir, "run"), "x")
}

// TestSessionEnviron verifies that the helper's directory comes first in PATH and that the other
// directories are kept.
func TestSessionEnviron(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "somewhere", "docker-credential-regcred")
	s, err := NewSession(testEnv(t, dir, map[string]string{"PATH": "/usr/bin"}), SessionOptions{Hosts: []string{"a.example"}, Program: program})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got := s.Environ([]string{"A=1", "PATH=/usr/bin"})
	want := []string{"A=1", "PATH=/usr/bin", "DOCKER_CONFIG=" + s.dockerDir(), "REGISTRY_AUTH_FILE=" + s.authFile(), "PATH=" + filepath.Join(s.dir, "bin") + ":/usr/bin"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if to, err := os.Readlink(filepath.Join(s.dir, "bin", "docker-credential-regcred")); err != nil || to != program {
		t.Errorf("the link leads to %q (%v)", to, err)
	}
}

// TestSessionNoPath verifies that an empty PATH does not put the working directory on the command's
// PATH.
func TestSessionNoPath(t *testing.T) {
	dir := t.TempDir()
	s, err := NewSession(testEnv(t, dir, nil), SessionOptions{Hosts: []string{"a.example"}, Program: filepath.Join(dir, "docker-credential-regcred")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got, want := s.Environ(nil), "PATH="+filepath.Join(s.dir, "bin"); !slices.Contains(got, want) {
		t.Errorf("got %q, want %q in it", got, want)
	}
}

// TestSessionFilesAreFree verifies that the directories of a session's files are not locked, so
// that a command can change the files.
func TestSessionFilesAreFree(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "run", "x"), "")
	s := must.Get(NewSession(testEnv(t, dir, nil), SessionOptions{Hosts: []string{"a.example"}}))(t)
	defer s.Close()
	for _, path := range []string{s.authFile(), filepath.Join(s.dockerDir(), "config.json")} {
		at := must.Get(os.Open(filepath.Dir(path)))(t)
		defer at.Close()
		if held, err := flock.TryLock(at); !held {
			t.Errorf("the directory of %s is locked (%v)", path, err)
		}
	}
}
