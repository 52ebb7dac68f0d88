// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// mountNamespaceEnv is set in a process that has its own mount namespace.
const mountNamespaceEnv = "REGCRED_TEST_OWN_MOUNTS"

// InMountNamespace reports whether this process has its own mount namespace. If not, it runs
// the test for at most a minute in a new process that has one, and reports its failure. It
// skips the test if there is no FUSE or no permission to mount.
//
//	if !testenv.InMountNamespace(t) {
//		return
//	}
//	dir := testenv.MountHungFS(t)
func InMountNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(mountNamespaceEnv) != "" {
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("only root may mount")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("no FUSE: ", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), mountNamespaceEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v in a process with its own mount namespace:\n%s", err, out)
	} else if testing.Verbose() {
		t.Logf("%s", out)
	}
	return false
}

// MountHungFS returns a directory where every operation hangs until the test ends, as on
// a network file system whose server is down. It is a FUSE file system whose daemon
// never responds.
func MountHungFS(t *testing.T) string {
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
		syscall.Close(fuse) // hanging operations fail
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
