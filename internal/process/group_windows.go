// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package process

import (
	"os"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return nil }

// killGroup kills only the program: Windows has no process groups.
func killGroup(p *os.Process) { p.Kill() }

// terminateGroup does nothing: Windows has no SIGTERM.
func terminateGroup(*os.Process) bool { return false }

const (
	errBusy      = syscall.Errno(32)  // ERROR_SHARING_VIOLATION
	errNotFormat = syscall.Errno(193) // ERROR_BAD_EXE_FORMAT
)
