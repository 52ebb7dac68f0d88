// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package flock

import (
	"errors"
	"os"
)

// TryLock is not supported.
func TryLock(*os.File) (bool, error) { return false, errors.ErrUnsupported }

// TryLockShared is not supported.
func TryLockShared(*os.File) (bool, error) { return false, errors.ErrUnsupported }
