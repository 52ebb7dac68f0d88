// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote_test

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
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

// TestCauseBadProxy: package http quotes what stands in HTTPS_PROXY.
func TestCauseBadProxy(t *testing.T) {
	transport := &http.Transport{Proxy: func(*http.Request) (*url.URL, error) {
		return nil, fmt.Errorf("invalid proxy address %q: no URL", "http://user:"+canary.Password+"%zz@proxy.example")
	}}
	_, err := (&http.Client{Transport: transport}).Get("http://registry.example")
	if err == nil || canary.Find(err.Error()) == "" {
		t.Fatalf("package http says %v", err)
	}
	got := remote.Cause(t.Context(), err).Error()
	canary.Check(t, "the cause", got)
	if want := "the address of the proxy is not a URL: look at HTTPS_PROXY and HTTP_PROXY"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
