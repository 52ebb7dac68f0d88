// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package flock

import (
	"errors"
	"os"
)

// TryLock always returns [errors.ErrUnsupported].
func TryLock(*os.File) (bool, error) { return false, errors.ErrUnsupported }

// TryLockShared always returns [errors.ErrUnsupported].
func TryLockShared(*os.File) (bool, error) { return false, errors.ErrUnsupported }
