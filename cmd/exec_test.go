// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cmd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/regcred/regcred/internal/must"
)

// newMachine builds the programs of a release into dir. It creates a home directory with a
// configuration for one plugin.
func newMachine(t *testing.T) (dir, home string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("what is run is a script of sh")
	}
	dir, home = buildProgramsDir(t), t.TempDir()
	secret := filepath.Join(home, "password")
	config := `{"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": [{"name": "static-credential-provider",
		"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "matchImages": ["registry.example", "docker.io", "*.pattern.example"], "defaultCacheDuration": "1m",
		"args": ["--host=registry.example", "--host=docker.io", "--host=*.pattern.example", "--username=node", "--password-file=` + secret + `"]}]}`
	for path, text := range map[string]string{secret: password, filepath.Join(home, "c.json"): config} {
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	for variable, value := range map[string]string{
		"HOME": home, "TMPDIR": home, "REGCRED_CONFIG": filepath.Join(home, "c.json"), "REGCRED_BIN_DIR": dir,
		"XDG_RUNTIME_DIR": "", "XDG_CONFIG_HOME": "", "DOCKER_CONFIG": "", "DOCKER_AUTH_CONFIG": "", "REGISTRY_AUTH_FILE": "",
	} {
		t.Setenv(variable, value)
	}
	return dir, home
}

// TestExecFindsHelper verifies that regcred exec finds the helper in its own directory,
// and that the helper uses the same configuration in any working directory.
func TestExecFindsHelper(t *testing.T) {
	dir, home := newMachine(t)
	t.Setenv("REGCRED_CONFIG", "")
	t.Setenv("REGCRED_BIN_DIR", "")
	cmd := exec.Command(programPath(dir, "regcred"), "exec", "--config", "c.json", "--bin-dir", dir, "--",
		"sh", "-c", "cd /; printf registry.example | docker-credential-regcred get")
	cmd.Dir = home
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"Username":"node","Secret":"`+password+`"`) {
		t.Errorf("got %s (%v)", out, err)
	}
}

// TestHelperInstalled verifies that clients call the helper for its hosts after it is installed,
// and no longer call it after it is uninstalled. It uses docker's own code, in
// go-containerregistry's keychain.
func TestHelperInstalled(t *testing.T) {
	dir, _ := newMachine(t)
	regcred := programPath(dir, "regcred")
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	for _, step := range []struct {
		args []string
		user map[string]string // by registry
	}{
		{[]string{"helper", "install"}, map[string]string{"registry.example": "node", "index.docker.io": "node", "a.pattern.example": "", "other.example": ""}},
		{[]string{"helper", "install", "--all-hosts"}, map[string]string{"registry.example": "node", "index.docker.io": "node", "a.pattern.example": "node", "other.example": ""}},
		{[]string{"helper", "uninstall"}, map[string]string{"registry.example": "", "index.docker.io": ""}},
	} {
		commandOutput(t, regcred, step.args...)
		for host, want := range step.user {
			registry := must.Get(name.NewRegistry(host))(t)
			auth, err := authn.DefaultKeychain.Resolve(registry)
			if err != nil {
				t.Errorf("%q, %s: %v", step.args, host, err)
				continue
			}
			got, err := authn.Authorization(t.Context(), auth)
			if err != nil || got.Username != want {
				t.Errorf("%q, %s: got user %q (%v), want %q", step.args, host, got.Username, err, want)
			}
		}
	}
}
