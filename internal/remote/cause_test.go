// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote_test

import (
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/remote"
)

func TestCause(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	listener.Close()
	_, err = (&http.Client{Transport: &http.Transport{}}).Get("http://" + addr + "/?key=" + canary.Token)
	if err == nil {
		t.Fatal("a closed port answered")
	}
	got := remote.Cause(t.Context(), err).Error()
	canary.Check(t, "the cause", got)
	if want := "connection refused"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCauseNoRoute(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENETUNREACH, syscall.EHOSTUNREACH} {
		err := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errno)}
		if got, want := remote.Cause(t.Context(), err).Error(), "there is no route to the host"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
