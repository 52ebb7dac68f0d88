// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testkube

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/regcred/regcred/internal/testfault"
)

// Admin is the user with all permissions.
const Admin = "admin"

// Options configures a [Server]. The zero value is ready to use.
type Options struct {
	// Secret is contained in all service-account and bearer tokens; "" means
	// [canary.TokenSecret]. Tests whose output must contain a token use "open-sesame".
	Secret string

	// TokenLifetime is the lifetime of tokens requested without expirationSeconds;
	// 0 means one hour, as in the real API server.
	TokenLifetime time.Duration

	// Pipe makes the server accept in-process connections without TLS, for tests in a
	// testing/synctest bubble. Clients connect with [Server.Dial].
	Pipe bool
}

// Server is a running API server. It is safe for concurrent use.
type Server struct {
	opts        Options
	addr        string
	mux         *http.ServeMux
	ctx         context.Context // ends with Close
	cancel      context.CancelFunc
	lifecycleMu sync.Mutex // held by Start, Stop and Close

	// guarded by serving
	tlsServer    *httptest.Server // nil with Options.Pipe
	pipeServer   *http.Server     // with Pipe
	pipeListener *pipeListener
	stopped      bool

	*store
	faults testfault.FaultSet[Fault]

	mu         sync.Mutex // guards the fields below
	grants     []permission
	requestLog []Request
	tokenCount int
	podLogs    map[objectKey]string // of pods
	release    chan struct{}        // closed to release hanging requests
}

// Start restarts the server after [Server.Stop] at the same address with the same
// objects, faults and log.
func (s *Server) Start() error {
	s.lifecycleMu.Lock()
	defer s.lifecycleMu.Unlock()
	if !s.stopped {
		return nil
	}
	if s.opts.Pipe {
		s.pipeListener, s.pipeServer, s.stopped = newPipeListener(), s.newHTTPServer(), false
		go s.pipeServer.Serve(s.pipeListener) // returns when the pipe is closed
		return nil
	}
	ln, err := net.Listen("tcp", s.addr)
	if err != nil {
		return err
	}
	s.addr = ln.Addr().String()
	s.tlsServer = &httptest.Server{Listener: ln, EnableHTTP2: true, Config: s.newHTTPServer()}
	s.tlsServer.StartTLS()
	s.stopped = false
	return nil
}

func (s *Server) newHTTPServer() *http.Server {
	return &http.Server{
		Handler:     s,
		ErrorLog:    log.New(io.Discard, "", 0), // some tests do not trust the certificate
		BaseContext: func(net.Listener) context.Context { return s.ctx },
	}
}

// Stop closes the port and all connections. Clients then get "connection refused".
func (s *Server) Stop() {
	s.lifecycleMu.Lock()
	defer s.lifecycleMu.Unlock()
	s.stopLocked()
}

func (s *Server) stopLocked() {
	if s.stopped {
		return
	}
	s.stopped = true
	if s.opts.Pipe {
		_ = s.pipeListener.Close()
		_ = s.pipeServer.Close()
		return
	}
	_ = s.tlsServer.Listener.Close()
	_ = s.tlsServer.Config.Close() // aborts requests in progress; httptest would wait for them
}

// Close stops the server permanently.
func (s *Server) Close() {
	s.lifecycleMu.Lock()
	defer s.lifecycleMu.Unlock()
	s.cancel()
	s.stopLocked()
}

// URL returns the server's address without a trailing slash.
func (s *Server) URL() string {
	if s.opts.Pipe {
		return "http://testkube"
	}
	return "https://" + s.addr
}

// CA returns the server's certificate in PEM, or nil with Options.Pipe.
func (s *Server) CA() []byte {
	if s.opts.Pipe {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.tlsServer.Certificate().Raw})
}

// Dial connects to a server with Options.Pipe. It ignores the address.
func (s *Server) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	s.lifecycleMu.Lock()
	pipe := s.pipeListener
	s.lifecycleMu.Unlock()
	return pipe.dialClient(ctx, network)
}

// Token returns a user's bearer token.
func (s *Server) Token(user string) string {
	return s.opts.Secret + "." + url.QueryEscape(user)
}

// Kubeconfig writes a kubeconfig file for a user, with mode 0600. The user is [Admin],
// "system:node:NAME", or a user to whom [Server.Grant] gave permissions.
func (s *Server) Kubeconfig(path, user string) error {
	named := func(kind string, value map[string]any) []any {
		return []any{map[string]any{"name": "testkube", kind: value}}
	}
	data, err := json.Marshal(map[string]any{ // JSON is valid YAML
		"apiVersion": "v1", "kind": "Config", "current-context": "testkube",
		"clusters": named("cluster", map[string]any{"server": s.URL(), "certificate-authority-data": s.CA()}),
		"users":    named("user", map[string]any{"token": s.Token(user)}),
		"contexts": named("context", map[string]any{"cluster": "testkube", "user": "testkube"}),
	})
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}
