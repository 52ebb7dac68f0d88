// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package convert

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestReplaceKeepsOwner: root converts a file of somebody else's.
func TestReplaceKeepsOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give files away")
	}
	dir := t.TempDir()
	files := toReplace(t, dir, "a.yaml")
	if err := os.Chown(files[0].Name, 12345, 54321); err != nil {
		t.Fatal(err)
	}
	done, err := Replace(files)
	if err != nil {
		t.Fatal(err)
	}
	if done[0].Foreign {
		t.Error("the owner was not kept")
	}
	for _, name := range []string{"a.yaml", "a.yaml.bak"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if stat := info.Sys().(*syscall.Stat_t); stat.Uid != 12345 || stat.Gid != 54321 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: owner %d:%d, mode %v", name, stat.Uid, stat.Gid, info.Mode())
		}
	}
}
