// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// TestPluginsDieOfSIGPIPE checks that plugins do not inherit how regcred handles
// SIGPIPE. A shell script cannot reset an ignored signal.
func TestPluginsDieOfSIGPIPE(t *testing.T) {
	regcred := must.Get(exec.LookPath("regcred"))(t)
	dir := t.TempDir()
	said := filepath.Join(dir, "said")
	writeFile(t, filepath.Join(dir, "bin", "p"), "#!/bin/sh\ngrep SigIgn: /proc/self/status > '"+said+"'\n", 0o755)
	writeFile(t, filepath.Join(dir, "config.yaml"), `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- {name: p, matchImages: [registry.example], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1}
`, 0o600)
	out, _ := exec.Command(regcred, "get", "--config", filepath.Join(dir, "config.yaml"), "--bin-dir", filepath.Join(dir, "bin"), "registry.example/app").CombinedOutput()
	line, err := os.ReadFile(said)
	if err != nil {
		t.Fatalf("the plugin did not run: %v\n%s", err, out)
	}
	_, hex, _ := strings.Cut(strings.TrimSpace(string(line)), "\t")
	ignored, err := strconv.ParseUint(hex, 16, 64)
	if err != nil || ignored&(1<<(syscall.SIGPIPE-1)) != 0 {
		t.Errorf("the plugin ignores %s, %v", line, err)
	}
}
