// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testenv"
)

// TestSignalOnHungMount checks that one signal ends a command that is blocked on a hung
// mount.
func TestSignalOnHungMount(t *testing.T) {
	if !testenv.InMountNamespace(t) {
		return
	}
	dir := testenv.MountHungFS(t)
	regcred := must.Get(exec.LookPath("regcred"))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, regcred, "validate", filepath.Join(dir, "config.yaml"))
	must.Do(t, cmd.Start())
	for !waitsForFUSE(cmd.Process.Pid) {
		if ctx.Err() != nil {
			t.Fatal("it does not look at the mount")
		}
		time.Sleep(10 * time.Millisecond)
	}
	cmd.Process.Signal(syscall.SIGTERM)
	cmd.Wait()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGTERM {
		t.Errorf("it ended by %v, want %v", cmd.ProcessState, syscall.SIGTERM)
	}
}

// waitsForFUSE reports whether a thread of the process waits for FUSE.
func waitsForFUSE(pid int) bool {
	threads, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "wchan"))
	for _, name := range threads {
		what, _ := os.ReadFile(name)
		if strings.HasPrefix(string(what), "fuse") || strings.HasPrefix(string(what), "request_wait") {
			return true
		}
	}
	return false
}
