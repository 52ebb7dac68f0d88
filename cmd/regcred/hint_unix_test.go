// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// TestHintsCanBePasted checks that the commands in hints work for any path of the
// configuration and any flags.
func TestHintsCanBePasted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), `it's "here" $(touch x)`)
	flags := writeRuntimeConfig(t, "empty", "registry.example")
	must.Do(t, os.Rename(filepath.Dir(flags[1]), dir))
	_, _, errOut := runApp(t, "get", "--image-credential-provider-config", filepath.Join(dir, "config.yaml"), "--bin-dir", filepath.Join(dir, "bin"),
		"--root-dir", filepath.Join(dir, "root dir"), "--plugin-timeout", "7s", "--no-node-config", "registry.example/app")
	_, command, _ := strings.Cut(errOut, `hint: run "`)
	command, ok := strings.CutSuffix(strings.TrimSpace(command), `" to see every step`)
	if !ok || !strings.Contains(command, " --plugin-timeout 7s ") || !strings.Contains(command, " --root-dir '") || !strings.Contains(command, " --image-credential-provider-config '") {
		t.Fatalf("stderr %s", errOut)
	}
	out := runShellLine(t, command)
	if !strings.Contains(out, "config        "+dir) {
		t.Errorf("%s prints\n%s", command, out)
	}
}

// runShellLine runs a regcred command line and ignores its exit code.
func runShellLine(t *testing.T, line string) (output string) {
	t.Helper()
	regcred := must.Get(exec.LookPath("regcred"))(t)
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(regcred)+":"+os.Getenv("PATH"))
	out, _ := cmd.CombinedOutput()
	if left, err := os.ReadDir(cmd.Dir); err != nil || len(left) > 0 {
		t.Errorf("the shell ran an injected command: %v, %v", left, err)
	}
	return string(out)
}
