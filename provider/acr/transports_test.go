// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/testcloud"
)

// TestMain makes this process trust the CA of package httptest. Go and package remote read the CAs
// only once.
func TestMain(m *testing.M) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Close()
	dir, err := os.MkdirTemp("", "acr-test-")
	if err != nil {
		panic(err)
	}
	file := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		panic(err)
	}
	os.Setenv("SSL_CERT_FILE", file)
	os.Setenv("SSL_CERT_DIR", dir)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// connCounter counts connections to servers.
type connCounter struct {
	mu     sync.Mutex
	open   map[net.Conn]bool
	opened int
}

func (c *connCounter) recordState(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.open[conn] = true
		c.opened++
	case http.StateClosed, http.StateHijacked:
		delete(c.open, conn)
	}
}

func (c *connCounter) startServer(t *testing.T, h http.Handler, start func(*httptest.Server)) *httptest.Server {
	server := httptest.NewUnstartedServer(h)
	server.Config.ConnState = c.recordState
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	start(server)
	t.Cleanup(server.Close)
	return server
}

// TestConnectionsOfTransportsAreClosed verifies that the provider closes the connections of its own
// transports after a response or an error.
func TestConnectionsOfTransportsAreClosed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("Go takes the authority from SSL_CERT_FILE on Linux and the BSDs")
	}
	for name, tt := range map[string]struct {
		fault testcloud.Fault
		want  string
	}{
		"an answer":         {testcloud.Fault{}, ""},
		"no token":          {testcloud.Fault{Path: imdsPath, Status: 400, Times: -1}, "status 400"},
		"no challenge":      {testcloud.Fault{Path: "/v2/", Status: 403, Times: -1}, "status 403"},
		"no exchange":       {testcloud.Fault{Path: exchangePath, Status: 403, Times: -1}, "status 403"},
		"another challenge": {testcloud.Fault{Path: "/v2/", Status: 401, Times: -1}, "status 401"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestCloud(t, managedIdentityConfig)
			c := &connCounter{open: map[net.Conn]bool{}}
			metadata := c.startServer(t, w.az, (*httptest.Server).Start)
			registry := c.startServer(t, w.az, (*httptest.Server).StartTLS)
			host := registry.Listener.Addr().String()
			w.env["AZURE_POD_IDENTITY_AUTHORITY_HOST"] = metadata.URL
			w.opts.Transport, w.opts.AllowHosts = nil, []string{host}
			if tt.fault.Status != 0 {
				w.az.Inject(tt.fault)
			}
			if _, err := w.getCredentials(imageRequest(host + "/x")); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got the error %v, want %q", err, tt.want)
			}
			c.mu.Lock()
			if c.opened < 1 || c.opened > 2 {
				t.Errorf("%d connections, want one to each server at most", c.opened)
			}
			c.mu.Unlock()
			for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				c.mu.Lock()
				left := len(c.open)
				c.mu.Unlock()
				if left == 0 {
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("%d connections are left", left)
				}
			}
		})
	}
}
