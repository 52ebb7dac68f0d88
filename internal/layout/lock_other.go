// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package layout

import (
	"errors"
	"syscall"
)

// renamesOpen is false: Windows cannot rename open files.
const renamesOpen = false

const nonblock = 0

func isDiskFull(err error) bool { return errors.Is(err, syscall.ENOSPC) }
