// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"path/filepath"
	"testing"

	"github.com/regcred/regcred/internal/testenv"
)

// TestConfigOnHungMount verifies that a configuration on a hanging file system delays a
// client no longer than the timeout of a run.
func TestConfigOnHungMount(t *testing.T) {
	if !testenv.InMountNamespace(t) {
		return
	}
	dir := testenv.MountHungFS(t)
	b := newTestHost(t, "good r.example")
	stdout, code := b.runGet("r.example", "REGCRED_CONFIG="+filepath.Join(dir, "c.yaml"), "TEST_RUN=200ms")
	b.checkFailure("a configuration", stdout, code, "get: timed out after 200ms")
	stdout, code = b.runGet("r.example", "REGCRED_BIN_DIR="+dir, "TEST_PLUGIN=200ms")
	b.checkFailure("plugins", stdout, code, `provider "good": check `, "a mount might be hanging")
}
