// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package plugin

import (
	"os"
	"syscall"
)

// ownGroup puts the plugin into a process group of its own, so that it can be
// killed with everything that it starts.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the plugin and its process group. It is also called when the
// plugin is gone and something that it started holds its pipes. As long as
// that is in the group, the kernel gives the group's number to nobody else.
func killGroup(p *os.Process) {
	syscall.Kill(-p.Pid, syscall.SIGKILL)
	p.Kill() // in case it has moved to another group
}

// terminateGroup asks the plugin and its process group to end, once: a program
// whose handler has run may die of a second SIGTERM.
func terminateGroup(p *os.Process) bool {
	if p.Signal(syscall.Signal(0)) != nil {
		return false // it is gone, and its number may be somebody else's
	}
	return syscall.Kill(-p.Pid, syscall.SIGTERM) == nil
}

const (
	errBusy      = syscall.ETXTBSY
	errNotFormat = syscall.ENOEXEC
)
