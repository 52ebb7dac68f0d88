// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package process

import (
	"os"
	"syscall"
)

// NewGroupAttr returns the attributes that start a program in its own process group, so
// that it can be killed together with its child processes.
func NewGroupAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the program and its process group. It is safe after the program has
// exited, because the kernel does not reuse the group's ID while a process remains in the
// group.
func killGroup(p *os.Process) {
	syscall.Kill(-p.Pid, syscall.SIGKILL)
	p.Kill() // the program may have moved to another group
}

// terminateGroup sends SIGTERM to the process group. It does not also send it to the
// program, because a second SIGTERM may kill a program that handles the first. It reports
// whether the signal was sent.
func terminateGroup(p *os.Process) bool {
	if p.Signal(syscall.Signal(0)) != nil {
		return false // the program has exited, and another process may have its ID
	}
	return syscall.Kill(-p.Pid, syscall.SIGTERM) == nil
}

const (
	errTextBusy   = syscall.ETXTBSY
	errExecFormat = syscall.ENOEXEC
)
