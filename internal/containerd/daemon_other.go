// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !linux

package containerd

import (
	"context"
	"errors"
)

// daemon is the process that serves a socket.
type daemon struct {
	pid  int
	file string
}

func findDaemon(context.Context, string) (*daemon, error) {
	return nil, errors.New("finding the process that serves a socket is supported only on Linux")
}

// Close releases the process.
func (*daemon) Close() {}

func (*daemon) runProgram(context.Context, ...string) ([]byte, error) {
	return nil, errors.ErrUnsupported
}
