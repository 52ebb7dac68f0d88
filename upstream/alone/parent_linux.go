// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package alone

import (
	"os/exec"
	"runtime"
	"syscall"
)

// setParentDeathSignal makes a process end when this one ends, even if it is killed. The kernel
// watches the thread that started the process, so that thread must not exit.
func setParentDeathSignal(cmd *exec.Cmd) {
	runtime.LockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
