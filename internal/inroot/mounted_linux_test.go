// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package inroot_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/inroot"
)

// TestMountedFile verifies that WritableError reports a file that is a mount point. Such a file
// cannot be replaced with a rename.
func TestMountedFile(t *testing.T) {
	const inside = "REGCRED_TEST_MOUNTED"
	if root := os.Getenv(inside); root != "" {
		file := filepath.Join(root, "etc", "config.yaml")
		if err := errors.Join(syscall.Mount("", "/", "", syscall.MS_PRIVATE|syscall.MS_REC, ""), syscall.Mount(filepath.Join(root, "source"), file, "", syscall.MS_BIND, "")); err != nil {
			t.Fatal(err)
		}
		for _, f := range []inroot.FS{{}, {Root: root}} {
			name := "/etc/config.yaml"
			if f.Root == "" {
				name = file
			}
			if err := f.WritableError(name); err == nil || !strings.Contains(err.Error(), "a mount point") {
				t.Errorf("%s: %v", name, err)
			}
			if err := f.WritableError(filepath.Dir(name)); err != nil {
				t.Errorf("its directory: %v", err)
			}
		}
		return
	}
	if os.Getuid() != 0 {
		t.Skip("only root may mount")
	}
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "source"), "x")
	writeFile(t, filepath.Join(root, "etc", "config.yaml"), "y")
	if err := (inroot.FS{Root: root}).WritableError("/etc/config.yaml"); err != nil {
		t.Errorf("not mounted: %v", err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestMountedFile$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"="+root)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
