// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// TestLimitsOfRegcred verifies that no command claims that the kubelet rejects a file or a response
// that exceeds only a limit of regcred.
func TestLimitsOfRegcred(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		writeFile(t, path, text, 0o700)
		return path
	}
	const head = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
	const provider = "- {name: long, matchImages: [r.example], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1}\n"
	good := write("good.yaml", head+provider)
	write("bin/long", "#!/bin/sh\nhead -c 1100000 /dev/zero\n")
	entries := strings.TrimSuffix(strings.Repeat(`"a.example":{},`, 70000), ",")
	many := write("root/config.json", `{"auths":{`+entries+`}}`)
	long := write("long.yaml", head+provider+strings.Repeat("# -\n", 1<<16))
	bomb := write("bomb.yaml", head+provider+"a: &a "+strings.Repeat("z", 1<<20)+"\nb: ["+strings.Repeat("*a, ", 1000)+"]\n")
	secret := write("secret.yaml", "kind: Secret\nx: &x "+strings.Repeat("z", 1<<20)+"\ny: ["+strings.Repeat("*x, ", 100)+"]\n")
	pipe := filepath.Join(dir, "pipe.yaml")
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	t.Setenv("HOME", dir)
	bin := filepath.Join(dir, "bin")
	flags := []string{"--config", good, "--bin-dir", bin, "--root-dir", filepath.Join(dir, "root")}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"validate", many}, "more than 131072 commas and braces"},
		{[]string{"validate", secret}, "expand to more than 16 MiB"},
		{[]string{"validate", long}, "or more than 131072 line ends"},
		{[]string{"validate", bomb}, "expand to more than 16 MiB"},
		{[]string{"validate", pipe}, "a named pipe"},
		{[]string{"get", "--config", bomb, "--bin-dir", bin, "r.example/a"}, "expand to more than 16 MiB"},
		{[]string{"explain", "--config", bomb, "--bin-dir", bin, "-o", "json", "r.example/a"}, "expand to more than 16 MiB"},
		{[]string{"doctor", "--config", bomb, "--bin-dir", bin, "--only", "config"}, "expand to more than 16 MiB"},
		{append([]string{"doctor", "--only", "docker-config"}, flags...), "regcred does not read it, but the kubelet does"},
		{append([]string{"get", "--no-node-config", "--pull-secret", many, "other.example/a"}, flags...), "more than 131072 commas and braces"},
		{append([]string{"explain", "--no-node-config", "--pull-secret", many, "other.example/a"}, flags...), "a limit of regcred"},
		{append([]string{"get", "--no-node-config", "r.example/a"}, flags...), "longer than 1048576 bytes"},
		{append([]string{"explain", "--no-node-config", "r.example/a"}, flags...), "a limit of regcred"},
		{append([]string{"plugin", "run", "long", "r.example/a"}, flags...), "regcred rejects this"},
	} {
		code, stdout, stderr := runApp(t, tt.args...)
		got := stdout + stderr
		if (code == 0) != (tt.args[0] == "doctor" && tt.args[2] == "docker-config") || !strings.Contains(got, tt.want) {
			t.Errorf("%q: exit code %d, %q", tt.args, code, got)
		}
		for _, claim := range []string{"the kubelet cannot", "the kubelet would not", "would still pull", "kubelet rejects", "not start", "kubelet ignores", "silently ignores"} {
			if strings.Contains(got, claim) {
				t.Errorf("%q: %q contains %q", tt.args, got, claim)
			}
		}
	}
	code, _, _ := runApp(t, "validate", write("empty.json", `{"auths":{}}`))
	if _, err := os.Stat(many); err != nil || code != 0 {
		t.Errorf("validate fails for a small file: exit code %d, %v", code, err)
	}
}
