// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package layout

import (
	"errors"
	"syscall"
)

// canRenameOpenFiles is false, because Windows cannot rename open files.
const canRenameOpenFiles = false

const openNonblock = 0

func isDiskFull(err error) bool { return errors.Is(err, syscall.ENOSPC) }
