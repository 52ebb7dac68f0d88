// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package layout

import (
	"errors"
	"syscall"
)

// canRenameOpenFiles is true, because open files can be renamed.
const canRenameOpenFiles = true

// openNonblock prevents open from blocking until the other end of a pipe is opened.
const openNonblock = syscall.O_NONBLOCK

func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
