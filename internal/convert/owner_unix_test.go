// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package convert

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/must"
)

// TestReplaceKeepsOwner verifies that a file keeps its owner when root converts it.
func TestReplaceKeepsOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give files away")
	}
	dir := t.TempDir()
	files := newReplacements(t, dir, "a.yaml")
	must.Do(t, os.Chown(files[0].Name, 12345, 54321))
	done := must.Get(Replace(files))(t)
	if done[0].OwnerChanged {
		t.Error("the owner was not kept")
	}
	for _, name := range []string{"a.yaml", "a.yaml.bak"} {
		info := must.Get(os.Stat(filepath.Join(dir, name)))(t)
		if stat := info.Sys().(*syscall.Stat_t); stat.Uid != 12345 || stat.Gid != 54321 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: owner %d:%d, mode %v", name, stat.Uid, stat.Gid, info.Mode())
		}
	}
}

// unownedFile is a file whose owner cannot be copied.
type unownedFile struct{ fs.FileInfo }

func (unownedFile) Sys() any { return nil }

// TestWriteWithoutOwner verifies that group and others get no permissions if the file's owner
// cannot be kept.
func TestWriteWithoutOwner(t *testing.T) {
	name := writeFile(t, t.TempDir(), "a.yaml", "old")
	must.Do(t, os.Chmod(name, 0o644))
	info := must.Get(os.Stat(name))(t)
	name += ".new"
	foreign, err := writeWithAttr(inroot.FS{}.CreateFile, name, []byte("new"), inroot.FileAttr{Mode: info.Mode(), OwnerFrom: unownedFile{info}})
	if err != nil || !foreign {
		t.Errorf("foreign %t, %v", foreign, err)
	}
	if info, err = os.Stat(name); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v; want one for the owner alone", info.Mode(), err)
	}
}
