// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	kubeconfig := write("kubeconfig", "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n")
	bad := write("bad.yaml", "apiVersion: regcred.dev/v1alpha1\nkind: PullSecretConfig\n")
	providers := write("providers.yaml", "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders: []\n")
	for _, tt := range []struct {
		args   string
		code   int
		stdout string
		stderr string
	}{
		{"--help", 0, "container without the controller's API token", ""},
		{"--version", 0, "regcred-controller devel\n", ""},
		{"--unknown", 2, "", "error: unknown flag: --unknown\nhint: regcred-controller --help\n"},
		{"other", 2, "", `error: unexpected argument "other"`},
		{"", 2, "", "error: --config is required"},
		{"--config c", 2, "", "error: --pull-secrets is required"},
		{"--config c --pull-secrets p", 2, "", "error: one of --bin-dir and --plugin-socket is required"},
		{"--config c --pull-secrets p --bin-dir b --plugin-socket s", 2, "", "error: one of --bin-dir and --plugin-socket is required"},
		{"plugins --config c --bin-dir b", 2, "", "error: --config, --bin-dir and --plugin-socket are required"},
		{"plugins --plugin-socket s --bin-dir b --config " + bad, 1, "", "error: "},
		{"--bin-dir b --kubeconfig " + kubeconfig + " --config " + providers + " --pull-secrets " + bad, 1, "", "bad.yaml: rules: required"},
		{"--bin-dir b --kubeconfig " + kubeconfig + " --config " + bad + " --pull-secrets " + filepath.Join(dir, "none"), 1, "", "error: read "},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(tt.args), &stdout, &stderr)
		if code != tt.code || !strings.Contains(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) || (stderr.Len() > 0) != (tt.code != 0) {
			t.Errorf("%s: code %d, want %d\nstdout %s\nstderr %s", tt.args, code, tt.code, stdout.String(), stderr.String())
		}
	}
}
