// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package service

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
)

// statusHandler returns a handler that responds with a status.
func statusHandler(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

// startServer listens on address until the test ends.
func startServer(t *testing.T, address string, handler http.Handler) (url string) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", address))(t)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler}}
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return "http://" + listener.Addr().String() + "/healthz"
}

// TestHealthRequest verifies that only a server that itself responds with 200 is healthy, and that
// no response delays the check.
func TestHealthRequest(t *testing.T) {
	const loopback = "127.0.0.1:0"
	elsewhere := startServer(t, loopback, statusHandler(http.StatusOK))
	for name, tt := range map[string]struct {
		address string
		handler http.HandlerFunc
		want    string
	}{
		"healthy": {loopback, statusHandler(http.StatusOK), ""},
		"IPv6":    {"[::1]:0", statusHandler(http.StatusOK), ""},
		"ill":     {loopback, statusHandler(http.StatusInternalServerError), "HTTP status 500"},
		"another service": {loopback, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere, http.StatusFound)
		}, "HTTP status 302"},
		"no end of it": {loopback, func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
			}
		}, ""},
		"immense header": {loopback, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
		}, "server response headers exceeded"},
		"hangs up": {loopback, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "connection closed without a response"},
		"no HTTP": {loopback, func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			_, _ = io.WriteString(conn, "SSH-2.0\r\n")
			_ = conn.Close()
		}, "malformed HTTP"},
	} {
		t.Run(name, func(t *testing.T) {
			checkError(t, checkHealth(t.Context(), startServer(t, tt.address, tt.handler)), tt.want, "")
		})
	}
	checkError(t, checkHealth(t.Context(), "http://127.0.0.1:1/healthz"), "connection refused", "")
}

// TestHealthRequestCanceled verifies that a server that accepts connections but never
// responds is abandoned when the context ends.
func TestHealthRequestCanceled(t *testing.T) {
	url := startServer(t, "127.0.0.1:0", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	checkError(t, checkHealth(ctx, url), context.DeadlineExceeded.Error(), "")
}

// TestHealthRequestWithoutProxy verifies that requests to this machine do not use a proxy from the environment.
func TestHealthRequestWithoutProxy(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	checkError(t, checkHealth(t.Context(), startServer(t, "127.0.0.1:0", statusHandler(http.StatusOK))), "", "")
}
