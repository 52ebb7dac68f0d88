// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/node"
)

// TestDockerLogins verifies that findDockerConfigs returns only files with credentials that a
// kubelet could use.
func TestDockerLogins(t *testing.T) {
	root := t.TempDir()
	const login = `{"auths":{"r.example":{"username":"u","password":"` + canary.PasswordSecret + `"}}}`
	for name, text := range map[string]string{
		"root": login, "home/a": `{"auths":{}}`, "home/b": login, "home/c": `{"credsStore":"pass"}`, "home/d": "no JSON " + canary.PasswordSecret,
		"home/e": strings.Repeat(" ", maxHomeConfigSize) + login, "home/f": login,
	} {
		file := filepath.Join(root, name, ".docker", "config.json")
		must.Do(t, os.MkdirAll(filepath.Dir(file), 0o700))
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	}
	at := func(name string) string { return filepath.Join(root, name, ".docker", "config.json") }
	got := findDockerConfigs(t.Context(), homeDirs(root), []string{at("home/f")})
	if diff := cmp.Diff([]string{at("root"), at("home/b")}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestCheckHome verifies the finding about a HOME that is not an absolute path.
func TestCheckHome(t *testing.T) {
	for home, want := range map[string]string{
		"": "", "/root": "", "/": "", "/root/ ": `"/root/ /.docker/config.json"`, "\t/root": `/.docker/config.json"`, "~": `"/there/~/.docker/config.json"`, "$HOME": "not an absolute path",
	} {
		r := &checkResults{}
		checkHome(t.Context(), r, node.Node{Root: t.TempDir()}.NewReader(), &node.Origin{Unit: "kubelet.service", Dir: "/there", RootDir: "/var/lib/kubelet", Environ: []string{"HOME=" + home}})
		if len(r.list) > 1 || (len(r.list) == 0) != (want == "") || want != "" && !strings.Contains(r.list[0].Message, want) {
			t.Errorf("%q: got %+v, want %s", home, r.list, want)
		}
	}
}

// TestMovedRootDir verifies that a docker config file in the default root directory is reported if the
// kubelet has another root directory.
func TestMovedRootDir(t *testing.T) {
	old, moved := t.TempDir(), t.TempDir()
	path := filepath.Join(old, "config.json")
	for _, tt := range []struct {
		name, data, root string
		want             int
	}{
		{"moved", `{"auths":{"r.example":{"auth":"dTpw"}}}`, moved, 1},
		{"no credentials", `{"auths":{}}`, moved, 0},
		{"not moved", `{"auths":{"r.example":{"auth":"dTpw"}}}`, old, 0},
	} {
		must.Do(t, os.WriteFile(path, []byte(tt.data), 0o600))
		r := checkResults{check: "docker-config"}
		checkMovedRootDir(t.Context(), &r, &node.Origin{RootDir: tt.root}, old)
		if len(r.list) != tt.want {
			t.Errorf("%s: got %+v", tt.name, r.list)
		}
		if tt.want > 0 && (r.list[0].Fix != "mv "+path+" "+filepath.Join(moved, "config.json") || r.list[0].Severity != finding.SeverityWarning) {
			t.Errorf("%s: got %+v", tt.name, r.list[0])
		}
	}
}
