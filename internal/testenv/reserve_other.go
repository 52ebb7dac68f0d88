// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !linux

package testenv

import (
	"net"
	"testing"
)

func reserveAddr(testing.TB) (host string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
