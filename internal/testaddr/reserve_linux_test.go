// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testaddr_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/testaddr"
)

// TestReserved: nobody is given a port that is reserved, whether he listens or connects.
func TestReserved(t *testing.T) {
	reserved := map[string]bool{}
	for range 400 {
		reserved[testaddr.Free(t)] = true
	}
	if len(reserved) != 400 {
		t.Fatalf("%d ports of 400", len(reserved))
	}
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for conn, err := server.Accept(); err == nil; conn, err = server.Accept() {
			conn.Close()
		}
	}()
	// Of some 28,000 ports: each would be a reserved one about forty times.
	for range 3000 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if addr := l.Addr().String(); reserved[addr] {
			t.Fatalf("somebody who listens is given %s", addr)
		}
		conn, err := net.Dial("tcp", server.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn.(*net.TCPConn).SetLinger(0) // its port is free at once
		conn.Close()
		if addr := conn.LocalAddr().String(); reserved[addr] {
			t.Fatalf("somebody who connects is given %s", addr)
		}
	}
}

// TestFree: nobody answers there until somebody listens, which goes again and again.
func TestFree(t *testing.T) {
	host := testaddr.Free(t)
	for range 2 {
		if _, err := net.Dial("tcp", host); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("it is not refused: %v", err)
		}
		l, err := net.Listen("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", host)
		if err != nil {
			t.Error(err)
		} else {
			conn.Close()
		}
		l.Close()
	}
}
