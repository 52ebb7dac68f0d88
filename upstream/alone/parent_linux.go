// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package alone

import (
	"os/exec"
	"runtime"
	"syscall"
)

// dieWithParent makes a process end with this one, even if this one is killed.
// The kernel means the thread that starts it, which therefore has to stay.
func dieWithParent(cmd *exec.Cmd) {
	runtime.LockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
