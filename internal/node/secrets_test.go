// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package node

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/regcred/regcred/internal/canary"
)

// TestSecrets verifies which values SecretValues returns, based on the names of settings.
func TestSecrets(t *testing.T) {
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "lib/systemd/system/k3s.service"), "[Service]\nEnvironmentFile=/etc/k3s.env\nExecStart=/usr/local/bin/k3s server --token "+canary.TokenSecret+" --token-file=/t --config-secret=true --node-name x\n")
	putFile(t, filepath.Join(dir, "etc/k3s.env"), "K3S_TOKEN="+canary.EnvSecret+"\nPATH=/bin\nK3S_TOKEN_FILE=relative\n")
	putFile(t, filepath.Join(dir, "etc/rancher/k3s/config.yaml"), "agent-token: "+canary.PasswordSecret+"\nnode-name: y\nkubelet-arg: [\"secret-x="+canary.ArgSecret+"\", \"v=2\"]\n")
	got := Node{Root: dir}.NewReader().SecretValues(t.Context())
	slices.Sort(got)
	if want := []string{canary.ArgSecret, canary.EnvSecret, canary.PasswordSecret, canary.TokenSecret}; !slices.Equal(got, want) {
		t.Errorf("%d secrets, not %d of those planted", len(got), len(want))
	}
}
