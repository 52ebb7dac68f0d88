// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !unix && !windows

package process

import (
	"os"
	"syscall"
)

// Other systems, such as js/wasm, cannot run programs; the package only has to compile
// there.

func newProcessGroup() *syscall.SysProcAttr { return nil }

func killGroup(p *os.Process) { p.Kill() }

func terminateGroup(*os.Process) bool { return false }

const (
	errTextBusy   = syscall.EBUSY
	errExecFormat = syscall.ENOEXEC
)
