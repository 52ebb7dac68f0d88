// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package isolated

import (
	"os/exec"
	"runtime"
	"syscall"
)

// setParentDeathSignal makes a process end when this process ends, even if it is killed. The kernel
// sends the signal when the thread that started the process exits, so that thread must not exit.
func setParentDeathSignal(cmd *exec.Cmd) {
	runtime.LockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
