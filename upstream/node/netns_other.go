// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !linux

package node

import (
	"errors"
	"os"
)

func enterNetwork(*os.File) error { return errors.ErrUnsupported }
