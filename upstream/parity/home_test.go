// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package parity

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/kubernetes/pkg/credentialprovider"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/must"
)

// workDirsEnv is an environment variable that makes the test binary run as a kubelet. A kubelet needs
// its own process because it reads its home directory when it starts. The value is a list of
// working directories.
const workDirsEnv = "REGCRED_PARITY_WORKDIRS"

// TestNodeDockerConfigHome compares the paths of the node's docker config files if the
// home directory is missing, empty or relative.
func TestNodeDockerConfigHome(t *testing.T) {
	if list := os.Getenv(workDirsEnv); list != "" {
		for _, dir := range filepath.SplitList(list) {
			t.Chdir(dir)
			credentialprovider.SetPreferredDockercfgPath("root")
			cfg, _ := credentialprovider.ReadDockerConfigFile()
			fmt.Printf("found %q\n", cfg["registry.io"].Username)
		}
		return
	}
	home, found := t.TempDir(), 0
	var dirs []string
	for _, file := range []string{
		"root/config.json", "config.json", ".docker/config.json", "home/.docker/config.json", "home/config.json",
		"root/.dockercfg", ".dockercfg", "home/.dockercfg", ".docker/.dockercfg",
	} {
		dir := t.TempDir()
		dirs = append(dirs, dir)
		at := filepath.Join(dir, file)
		must.Do(t, os.MkdirAll(filepath.Dir(at), 0o700))
		text := `{"registry.io":{"username":"` + file + `"}}`
		if strings.HasSuffix(file, ".json") {
			text = `{"auths":` + text + `}`
		}
		writeFile(t, at, text)
	}
	for _, env := range [][]string{nil, {"HOME="}, {"HOME=home"}, {"HOME=" + home}} {
		value := strings.TrimPrefix(strings.Join(env, ""), "HOME=")
		var ours strings.Builder
		for _, dir := range dirs {
			user := ""
			source := regcred.NodeDockerConfig(regcred.NodePaths{RootDir: "root", WorkDir: dir, Home: value})
			if sets, _ := source.Auths(t.Context(), "registry.io/app"); len(sets) > 0 {
				user = sets[0].Auths["registry.io"].Username
				found++
			}
			fmt.Fprintf(&ours, "found %q\n", user)
		}
		kubelet := exec.Command(os.Args[0], "-test.run=^TestNodeDockerConfigHome$")
		kubelet.Env = append(env, workDirsEnv+"="+strings.Join(dirs, string(filepath.ListSeparator)))
		out, err := kubelet.Output()
		theirs, _, _ := strings.Cut(string(out), "PASS")
		if err != nil || theirs != ours.String() {
			t.Errorf("%q: %v\nours:\n%s\nthe kubelet's:\n%s", env, err, ours.String(), theirs)
		}
	}
	if found < 4*4 {
		t.Errorf("only %d files were found", found)
	}
}
