// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package layout

import (
	"context"
	"errors"
	"os"
	"syscall"
)

// lockDir does nothing here: only the pulls of one [Puller] wait for each other.
func lockDir(context.Context, string) (unlock func(), err error) { return func() {}, nil }

// renamesOpen: not on Windows.
const renamesOpen = false

const nonblock = 0

// hold cannot tell here whether somebody has a file.
func hold(*os.File) (bool, error) { return false, errors.ErrUnsupported }

func isDiskFull(err error) bool { return errors.Is(err, syscall.ENOSPC) }
