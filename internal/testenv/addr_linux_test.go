// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testenv_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testenv"
)

// TestFreeAddrIsReserved verifies that the kernel does not assign a reserved port to another
// listener or client.
func TestFreeAddrIsReserved(t *testing.T) {
	reserved := map[string]bool{}
	for range 400 {
		reserved[testenv.FreeAddr(t)] = true
	}
	if len(reserved) != 400 {
		t.Fatalf("%d ports of 400", len(reserved))
	}
	server := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer server.Close()
	go func() {
		for conn, err := server.Accept(); err == nil; conn, err = server.Accept() {
			conn.Close()
		}
	}()
	// This uses 3,000 of about 28,000 ports. Without the reservation, about 40 of them would
	// be reserved ports.
	for range 3000 {
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		l.Close()
		if addr := l.Addr().String(); reserved[addr] {
			t.Fatalf("a listener got the reserved %s", addr)
		}
		conn := must.Get(net.Dial("tcp", server.Addr().String()))(t)
		conn.(*net.TCPConn).SetLinger(0) // frees the port at once
		conn.Close()
		if addr := conn.LocalAddr().String(); reserved[addr] {
			t.Fatalf("a client got the reserved %s", addr)
		}
	}
}

// TestFreeAddr verifies that connections are refused until the test listens. It listens
// twice.
func TestFreeAddr(t *testing.T) {
	host := testenv.FreeAddr(t)
	for range 2 {
		if _, err := net.Dial("tcp", host); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got %v, want a refused connection", err)
		}
		l := must.Get(net.Listen("tcp", host))(t)
		conn, err := net.Dial("tcp", host)
		if err != nil {
			t.Error(err)
		} else {
			conn.Close()
		}
		l.Close()
	}
}
