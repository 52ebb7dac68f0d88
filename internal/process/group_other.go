// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !unix

package process

import (
	"os"
	"syscall"
)

// NewGroupAttr returns nil, because Windows has no process groups. On systems that cannot
// run programs, such as js/wasm, the package only has to compile.
func NewGroupAttr() *syscall.SysProcAttr { return nil }

// killGroup kills only the program, because Windows has no process groups.
func killGroup(p *os.Process) { p.Kill() }

// terminateGroup does nothing, because Windows has no SIGTERM.
func terminateGroup(*os.Process) bool { return false }

const (
	errTextBusy   = syscall.Errno(32)  // ERROR_SHARING_VIOLATION
	errExecFormat = syscall.Errno(193) // ERROR_BAD_EXE_FORMAT
)
