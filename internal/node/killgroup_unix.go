// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package node

import (
	"os/exec"
	"syscall"
)

// killGroupOnTimeout makes a timeout also kill the processes that the program has
// started, because a script may start a kubelet.
func killGroupOnTimeout(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
