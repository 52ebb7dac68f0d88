// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package flock

import (
	"errors"
	"os"
)

// Hold is not supported.
func Hold(*os.File) (bool, error) { return false, errors.ErrUnsupported }

// Share is not supported.
func Share(*os.File) (bool, error) { return false, errors.ErrUnsupported }
