// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package process

import (
	"os"
	"syscall"
)

// newProcessGroup starts the program in its own process group, so that it can be
// killed together with the processes that it starts.
func newProcessGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the program and its process group. The program may have
// exited already: while a process remains in the group, the kernel does not
// reuse the group's ID.
func killGroup(p *os.Process) {
	syscall.Kill(-p.Pid, syscall.SIGKILL)
	p.Kill() // it may have moved to another group
}

// terminateGroup sends SIGTERM to the process group, once: a second SIGTERM may
// kill a program that handles the first. It reports whether it was sent.
func terminateGroup(p *os.Process) bool {
	if p.Signal(syscall.Signal(0)) != nil {
		return false // it has exited, and its ID may belong to another process
	}
	return syscall.Kill(-p.Pid, syscall.SIGTERM) == nil
}

const (
	errTextBusy   = syscall.ETXTBSY
	errExecFormat = syscall.ENOEXEC
)
