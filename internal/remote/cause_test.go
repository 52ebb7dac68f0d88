// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote_test

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/internal/testenv"
)

func TestCause(t *testing.T) {
	_, err := (&http.Client{Transport: &http.Transport{}}).Get("http://" + testenv.FreeAddr(t) + "/?key=" + canary.TokenSecret)
	if err == nil {
		t.Fatal("a closed port answered")
	}
	got := remote.Cause(t.Context(), err).Error()
	canary.AssertAbsent(t, "the cause", got)
	if want := "connection refused"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCauseNoRoute(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENETUNREACH, syscall.EHOSTUNREACH} {
		err := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errno)}
		if got, want := remote.Cause(t.Context(), err).Error(), "no route to host"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestCauseBadProxy verifies that errors do not contain the value of HTTPS_PROXY, which package
// http quotes.
func TestCauseBadProxy(t *testing.T) {
	transport := &http.Transport{Proxy: func(*http.Request) (*url.URL, error) {
		return nil, fmt.Errorf("invalid proxy address %q: no URL", "http://user:"+canary.PasswordSecret+"%zz@proxy.example")
	}}
	_, err := (&http.Client{Transport: transport}).Get("http://registry.example")
	if err == nil || canary.FindMarker(err.Error()) == "" {
		t.Fatalf("package http says %v", err)
	}
	got := remote.Cause(t.Context(), err).Error()
	canary.AssertAbsent(t, "the cause", got)
	if want := "the proxy address is not a URL; check HTTPS_PROXY and HTTP_PROXY"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestCauseOfTLS verifies that TLS errors keep their text. Permanent errors are not retried.
func TestCauseOfTLS(t *testing.T) {
	for name, tt := range map[string]struct {
		answer, want string
		attempts     int
	}{
		"http":    {"HTTP/1.0 400 Bad Request\r\n\r\n", "http: server gave HTTP response to HTTPS client", 1},
		"garbage": {"220 mail.example ESMTP\r\n", "tls: first record does not look like a TLS handshake", 1},
		"alert":   {"\x15\x03\x03\x00\x02\x02\x50", "remote error: tls: internal error, 3 times", 3},
		"version": {"\x16\x03\x03\x00\x2c\x02\x00\x00\x28\x03\x00" + strings.Repeat("\x00", 32) + "\x00\x00\x05\x00\x00\x00",
			"tls: server selected unsupported protocol version 300", 1},
		"nothing": {"", "the connection was closed before the response was complete, 3 times", 3},
	} {
		t.Run(name, func(t *testing.T) {
			address := strings.Replace(rawServer(t, tt.answer), "http:", "https:", 1)
			failed := callError(t, newFastClient(), t.Context(), remote.Call{Step: "ask", URL: address})
			if got := failed.Error(); failed.Attempts != tt.attempts || !strings.HasSuffix(got, ": "+tt.want) {
				t.Errorf("%d attempts: %s", failed.Attempts, got)
			}
		})
	}
}
