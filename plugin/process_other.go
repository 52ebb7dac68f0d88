// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !unix && !windows

package plugin

import (
	"os"
	"syscall"
)

// Elsewhere, as in a browser, nothing is executed; what knows of plugins but
// runs none compiles.

func ownGroup() *syscall.SysProcAttr { return nil }

func killGroup(p *os.Process) { p.Kill() }

func terminateGroup(*os.Process) bool { return false }

const (
	errBusy      = syscall.EBUSY
	errNotFormat = syscall.ENOEXEC
)
