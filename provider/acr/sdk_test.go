// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/remote"
)

// TestAgain: what a metadata server answers while it starts or is updated may
// be otherwise the next time, and a refusal is not.
func TestAgain(t *testing.T) {
	for status, want := range map[int]bool{
		200: false, 400: false, 401: false, 403: false, 404: true, 408: true, 410: true, 429: true, 499: false, 500: true, 503: true,
	} {
		if got := new(watcher).again(&http.Response{StatusCode: status}, nil); got != want {
			t.Errorf("status %d: got %t, want %t", status, got, want)
		}
	}
	w := new(watcher)
	for i, want := range []bool{true, true, false} {
		if got := w.again(nil, io.EOF); got != want {
			t.Errorf("failure %d: got %t, want %t", i+1, got, want)
		}
	}
}

// TestBoundedConns: an answer is cut off at the bound, compressed or not, and
// does not count for the one after it.
func TestBoundedConns(t *testing.T) {
	long := strings.Repeat("x", remote.MaxBody*2/3)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if accepts := r.Header.Get("Accept-Encoding"); accepts != "" {
			t.Errorf("it asks for %s, of which a bounded answer may hold any amount", accepts)
		}
		body := long
		if r.URL.Path == "/endless" {
			body += long
		}
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	client := http.Client{Transport: boundedConns(&http.Transport{})}
	get := func(path string) (int, error) {
		resp, err := client.Get(server.URL + path)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return len(body), err
	}
	for range 3 {
		if n, err := get("/"); n != len(long) || err != nil {
			t.Fatalf("got %d bytes of %d, %v", n, len(long), err)
		}
	}
	if n, err := get("/endless"); n > remote.MaxBody || err == nil {
		t.Errorf("got %d bytes, %v", n, err)
	}
}

// TestBoundedConnFails: what ends a connection is told.
func TestBoundedConnFails(t *testing.T) {
	near, far := net.Pipe()
	go func() {
		fmt.Fprint(far, "abc")
		far.Close()
	}()
	conn := &boundedConn{near, 100}
	buf := make([]byte, 10)
	if n, err := conn.Read(buf); n != 3 || err != nil || conn.left != 97 {
		t.Errorf("got %d bytes, %v, %d left", n, err, conn.left)
	}
	if _, err := conn.Read(buf); err != io.EOF {
		t.Errorf("at the end: got %v", err)
	}
	near.Close()
	if _, err := conn.Read(buf); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("closed: got %v", err)
	}
}
