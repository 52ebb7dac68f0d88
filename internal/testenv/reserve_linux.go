// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testenv

import (
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"
)

// reserveAddr binds a socket without listening on it. With SO_REUSEADDR, which Go's
// listeners set, another socket can bind the same port number. The kernel does not
// choose a bound port for port 0.
func reserveAddr(t testing.TB) (host string, err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", os.NewSyscallError("socket", err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return "", os.NewSyscallError("setsockopt", err)
	}
	loopback := [4]byte{127, 0, 0, 1}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: loopback}); err != nil {
		return "", os.NewSyscallError("bind", err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		return "", os.NewSyscallError("getsockname", err)
	}
	return net.JoinHostPort(net.IP(loopback[:]).String(), strconv.Itoa(bound.(*syscall.SockaddrInet4).Port)), nil
}
