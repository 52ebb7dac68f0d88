// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package testmount gives tests a directory on which every look hangs, as on a
// network file system whose server is gone. The kernel has it from FUSE: a
// file system whose program never answers.
//
//	if !testmount.Own(t) {
//		return // it ran in a process that has mounts of its own
//	}
//	dir := testmount.Hang(t)
package testmount

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// inside is set in the environment of the process that has mounts of its own.
const inside = "REGCRED_TEST_OWN_MOUNTS=1"

// Own reports whether this process has mounts of its own. If not, it runs the
// test in one that has, within a minute, and fails if that does. It skips the
// test where there is no FUSE, or no right to mount.
func Own(t *testing.T) bool {
	t.Helper()
	if os.Getenv("REGCRED_TEST_OWN_MOUNTS") != "" {
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("only root may mount")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("no FUSE here, from which a mount that hangs is made: ", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v in a process with mounts of its own:\n%s", err, out)
	} else if testing.Verbose() {
		t.Logf("%s", out)
	}
	return false
}

// Hang mounts what hangs until the test is over, and returns the directory.
// Looking at the directory itself hangs too.
func Hang(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	fuse, err := syscall.Open("/dev/fuse", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("open /dev/fuse:", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fuse)
	if err := syscall.Mount("none", dir, "fuse", syscall.MS_NOSUID|syscall.MS_NODEV, options); err != nil {
		syscall.Close(fuse)
		t.Skip("mount:", err)
	}
	t.Cleanup(func() {
		syscall.Close(fuse) // whoever hangs gets an error
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
