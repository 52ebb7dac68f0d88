// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package install_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// newNodeOnSmallDisk mounts a small file system over /var/lib of a node without a kubelet.
func newNodeOnSmallDisk(t *testing.T, layout, options string) *layoutNode {
	t.Helper()
	o := newLayoutNode(t, layout)
	o.Running = nil
	must.Do(t, o.saveState())
	lib := filepath.Join(o.rootDir(), "var/lib")
	must.Do(t, os.RemoveAll(filepath.Join(lib, "kubelet")))
	must.Do(t, syscall.Mount("none", lib, "tmpfs", 0, "mode=755,"+options))
	t.Cleanup(func() { _ = syscall.Unmount(lib, syscall.MNT_DETACH) })
	o.writeFile("var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=\"--a=b"+map[string]string{"json": flagsFor("/etc/kubernetes/cred.json")}[layout]+"\"\n")
	return o
}

// fillDisk uses all space and inodes of the node's file system.
func (o *layoutNode) fillDisk(t *testing.T) {
	t.Helper()
	dir := filepath.Join(o.rootDir(), "var/lib")
	if err := os.WriteFile(filepath.Join(dir, "full"), make([]byte, 64<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the file system is not small: %v", err)
	}
	for i := range 10000 {
		if err := os.Symlink("x", filepath.Join(dir, fmt.Sprint("full-", i))); err != nil {
			return
		}
	}
	t.Fatal("the file system has no limit of inodes")
}

// TestFullDisk verifies that a rollback that changes the kubelet's entries, and an uninstall, need
// no free space and no free inodes.
func TestFullDisk(t *testing.T) {
	if !ownMounts(t) {
		return
	}
	for _, layout := range []string{"kubeadm", "json"} {
		t.Run(layout, func(t *testing.T) {
			o := newNodeOnSmallDisk(t, layout, "size=12m,nr_inodes=200")
			before := readTree(t, o.rootDir())
			o.runChanges("install a", "install b")
			o.fillDisk(t)
			o.runChanges("rollback 1")
			if s := o.status(); s.Current.Number != 1 || len(s.Problems) > 0 {
				t.Errorf("generation %d, problems %q", s.Current.Number, s.Problems)
			}
			o.fillDisk(t)
			o.runChanges("uninstall")
			left := readTree(t, o.rootDir())
			for name := range left {
				if strings.HasPrefix(name, "/var/lib/full") {
					delete(left, name)
				}
			}
			if diff := before.differences(left); diff != "" {
				t.Errorf("left: %s", diff)
			}
		})
	}
}

// TestFewInodes verifies that a first install that runs out of inodes at any point leaves the node
// as it was, and that an uninstall then has nothing to do.
func TestFewInodes(t *testing.T) {
	if !ownMounts(t) {
		return
	}
	failed := 0
	for inodes := 6; inodes < 40; inodes += 3 {
		o := newNodeOnSmallDisk(t, "json", fmt.Sprintf("size=20m,nr_inodes=%d", inodes))
		before := readTree(t, o.rootDir())
		err := o.run(o.configDir, "install a")
		if err != nil {
			failed++
			if diff := before.differences(readTree(t, o.rootDir())); diff != "" {
				t.Errorf("%d inodes: %v: left: %s", inodes, err, diff)
			}
		}
		o.runChanges("uninstall")
		if diff := before.differences(readTree(t, o.rootDir())); diff != "" {
			t.Errorf("%d inodes: left after uninstall: %s", inodes, diff)
		}
	}
	if failed < 3 || failed == 12 {
		t.Errorf("%d of 12 installs failed, want some", failed)
	}
}

// TestUninstallUndoesInstall verifies that an uninstall removes an unfinished install, without
// finishing it: it writes none of the install's files.
func TestUninstallUndoesInstall(t *testing.T) {
	o := newLayoutNode(t, "json")
	before := readTree(t, o.rootDir())
	stopped := false
	err := o.runWith(o.configDir, "install a", func(step, name string) error {
		stopped = stopped || step == "create" && strings.HasPrefix(name, "/etc") // and the undoing fails too
		if stopped {
			return syscall.EIO
		}
		return nil
	})
	if err == nil || !o.fs().Exists(stateDir+"/journal.json") {
		t.Fatalf("not interrupted: %v", err)
	}
	must.Do(t, o.runWith(o.configDir, "uninstall", func(step, name string) error {
		if step == "link" || step == "create" && !strings.HasPrefix(name, stateDir) {
			return fmt.Errorf("%s %s", step, name)
		}
		return nil
	}))
	if diff := before.differences(readTree(t, o.rootDir())); diff != "" {
		t.Errorf("left: %s", diff)
	}
}
