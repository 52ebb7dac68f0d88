// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !linux && !darwin

package client

import (
	"errors"
	"net"
)

// serverUID returns an error, because the service does not run on this system.
func serverUID(*net.UnixConn) (uint32, error) { return 0, errors.ErrUnsupported }
