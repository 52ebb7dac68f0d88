// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package flock

import (
	"errors"
	"os"
)

// Hold cannot tell here whether somebody has a file.
func Hold(*os.File) (bool, error) { return false, errors.ErrUnsupported }

// Share cannot either.
func Share(*os.File) (bool, error) { return false, errors.ErrUnsupported }
