// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !linux

package install

import (
	"errors"

	"github.com/regcred/regcred/internal/generation"
)

// BootTime returns an error, because this package supports it only on Linux.
func BootTime() (generation.BootTime, error) { return generation.BootTime{}, errors.ErrUnsupported }
