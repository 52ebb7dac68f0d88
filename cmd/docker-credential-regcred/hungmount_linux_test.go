// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"path/filepath"
	"testing"

	"github.com/regcred/regcred/internal/testenv"
)

// TestHungMount: a configuration on a file system that does not answer holds a
// client up for the time of a run, and no longer.
func TestHungMount(t *testing.T) {
	if !testenv.InMountNamespace(t) {
		return
	}
	dir := testenv.HungMount(t)
	b := newBox(t, "good r.example")
	stdout, code := b.get("r.example", "REGCRED_CONFIG="+filepath.Join(dir, "c.yaml"), "TEST_RUN=200ms")
	b.refused("a configuration", stdout, code, "get: timed out after 200ms")
	stdout, code = b.get("r.example", "REGCRED_BIN_DIR="+dir, "TEST_PLUGIN=200ms")
	b.refused("plugins", stdout, code, `provider "good": check `, "a mount might be hanging")
}
