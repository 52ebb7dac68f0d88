// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testenv"
)

// TestDockerRegistry looks up credentials for a third-party registry and pulls from it. The
// registry is Debian's docker-registry with htpasswd. The plugin is a shell script or a Go program.
func TestDockerRegistry(t *testing.T) {
	requirePackages(t, "docker-registry", "htpasswd")
	dir := t.TempDir()
	passwordFile := filepath.Join(dir, "password")
	writeFile(t, passwordFile, canary.PasswordSecret, 0o600)
	host := startDockerRegistry(t, dir)
	digest := pushRandom(t, host+"/team/app:v1")
	bin := filepath.Join(dir, "bin")
	writeFile(t, filepath.Join(bin, "shell"), shellPlugin, 0o755)
	buildGoPlugin(t, filepath.Join(bin, "go"))
	writeFile(t, filepath.Join(dir, "wrong"), canary.PasswordSecret+"-no-more", 0o600)

	for _, tt := range []struct {
		plugin, passwordFile string
		pullCode             int
	}{
		{"shell", passwordFile, exitOK},
		{"go", passwordFile, exitOK},
		{"go", filepath.Join(dir, "wrong"), exitFailed},
	} {
		t.Run(tt.plugin+"_"+filepath.Base(tt.passwordFile), func(t *testing.T) {
			config := filepath.Join(t.TempDir(), "config.yaml")
			writeFile(t, config, fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- {name: %s, matchImages: [%q], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1, args: [%q]}
`, tt.plugin, host, tt.passwordFile), 0o600)
			common := []string{"--config", config, "--bin-dir", bin, "--no-node-config", host + "/team/app:v1"}

			var got getResult
			code, out, errOut := runApp(t, append([]string{"get", "-o", "json"}, common...)...)
			if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitOK || len(got.Credentials) != 1 || got.Credentials[0].Username != "ci" {
				t.Errorf("get: exit code %d, %v: %s", code, err, errOut)
			}

			image := filepath.Join(t.TempDir(), "image")
			code, out, errOut = runApp(t, append([]string{"pull", "--layout", image}, common...)...)
			canary.AssertAbsent(t, "output of pull", out+errOut)
			if code != tt.pullCode {
				t.Fatalf("pull: exit code %d, want %d: %s", code, tt.pullCode, errOut)
			}
			if code == exitOK && !strings.Contains(out, digest) {
				t.Errorf("pull does not name %s:\n%s", digest, out)
			}
			if code != exitOK && !strings.Contains(out, "HTTP 401") {
				t.Errorf("pull does not name the refusal:\n%s", out)
			}
		})
	}
}

// shellPlugin is a typical minimal plugin.
const shellPlugin = `#!/bin/sh
image=$(sed 's/.*"image":"\([^"]*\)".*/\1/')
printf '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1",'
printf '"cacheKeyType":"Registry","cacheDuration":"1m","auth":{"%s":{"username":"ci","password":"%s"}}}' "${image%%/*}" "$(cat "$1")"
`

// requirePackages skips the test if a program is missing, unless test.sh requires the
// programs.
func requirePackages(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err == nil {
			continue
		}
		testenv.SkipUnlessAvailable(t, "docker-registry", "%s is not installed: Debian's packages docker-registry and apache2-utils have it; test.sh installs them as root", p)
	}
}

// startDockerRegistry runs the registry on a free port until the test ends.
func startDockerRegistry(t *testing.T, dir string) (host string) {
	t.Helper()
	hash := must.Get(exec.Command("htpasswd", "-Bbn", "ci", canary.PasswordSecret).Output())(t)
	writeFile(t, filepath.Join(dir, "htpasswd"), string(hash), 0o600)
	host = testenv.FreeAddr(t)
	config := filepath.Join(dir, "registry.yml")
	writeFile(t, config, fmt.Sprintf(`version: 0.1
log: {level: info}
storage: {filesystem: {rootdirectory: %s}}
http: {addr: %s}
auth: {htpasswd: {realm: test, path: %s}}
`, filepath.Join(dir, "storage"), host, filepath.Join(dir, "htpasswd")), 0o600)
	cmd := exec.CommandContext(t.Context(), "docker-registry", "serve", config)
	log := must.Get(cmd.StderrPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "listening on") {
			go func() {
				for lines.Scan() { // drain the pipe so that the process does not block
				}
			}()
			return host
		}
	}
	t.Fatal("docker-registry ended before it listened")
	return ""
}

func pushRandom(t *testing.T, image string) (digest string) {
	t.Helper()
	img := must.Get(random.Image(1024, 2))(t)
	ref := must.Get(name.ParseReference(image))(t)
	if err := remote.Write(ref, img, remote.WithAuth(&authn.Basic{Username: "ci", Password: canary.PasswordSecret}), remote.WithContext(t.Context())); err != nil {
		t.Fatal(err)
	}
	hash := must.Get(img.Digest())(t)
	return hash.String()
}

func buildGoPlugin(t *testing.T, path string) {
	t.Helper()
	if out, err := exec.Command("go", "build", "-o", path, "./testdata/goplugin").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
}

func writeFile(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.Do(t, os.WriteFile(path, []byte(content), mode))
}

func runApp(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut strings.Builder
	code = run(t.Context(), args, strings.NewReader(""), &out, &errOut, os.Environ())
	return code, out.String(), errOut.String()
}
