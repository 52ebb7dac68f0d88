// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package testregistry is a real image registry on loopback, for tests and
// for `regcred demo`: an HTTP server with authentication (Basic, or Bearer with
// a token endpoint), access rules and fault injection.
//
//	reg, err := testregistry.New(testregistry.Options{
//		Auth:  testregistry.AuthBearer,
//		Users: map[string]string{"ci": "open-sesame"},
//	})
//	defer reg.Close()
//	digest, err := reg.Push("team/app", "v1", testregistry.Image{})
//	image := reg.Addr() + "/team/app:v1"
//
// Images are kept in memory. The registry is only for the process that started it.
package testregistry

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/regcred/regcred/internal/testfault"
)

// Auth is the authentication method of a [Server].
type Auth int

// The authentication methods.
const (
	AuthNone   Auth = iota // any client may do anything
	AuthBasic              // RFC 7617, on every request
	AuthBearer             // the token flow of the distribution specification
)

// Options configures a [Server]. The zero value is an open registry.
type Options struct {
	Auth  Auth
	Users map[string]string // passwords by user name; see [Server.SetUser]

	// Rules allow users to pull from or push to repositories. Without rules, every user
	// may pull from and push to all repositories.
	Rules []Rule

	// TokenTTL is the lifetime of Bearer tokens; 0 means 5 minutes.
	TokenTTL time.Duration

	// Now is the clock for token expiry; nil means [time.Now].
	Now func() time.Time

	// RedirectBlobs, if set, is the base URL to which blob downloads are redirected, as
	// many registries redirect to object stores. The request's path is appended.
	RedirectBlobs string

	// BaseURL is the base URL that clients use for the token server, without a trailing
	// slash; "" means [Server.URL]. Set it if clients use another host name.
	BaseURL string
}

// Server is a running registry. It is safe for concurrent use.
type Server struct {
	opts    Options
	storage http.Handler
	ln      net.Listener
	http    *http.Server
	done    context.CancelFunc
	served  chan struct{}

	faults testfault.FaultSet[Fault]

	mu     sync.Mutex // guards the fields below
	users  map[string]string
	tokens map[string]token
	log    []Request
}

// New starts a registry on a free port of 127.0.0.1. Call [Server.Close] to stop it.
func New(opts Options) (*Server, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting a registry on loopback: %w", err)
	}
	if opts.TokenTTL == 0 {
		opts.TokenTTL = 5 * time.Minute
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	discard := log.New(io.Discard, "", 0)
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		opts:    opts,
		storage: registry.New(registry.Logger(discard), registry.WithReferrersSupport(true)),
		ln:      ln,
		done:    cancel,
		served:  make(chan struct{}),
		users:   map[string]string{},
		tokens:  map[string]token{},
	}
	if opts.BaseURL == "" {
		s.opts.BaseURL = s.URL()
	}
	maps.Copy(s.users, opts.Users)
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		// Do not log clients that try TLS first.
		ErrorLog:    discard,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	go func() {
		defer close(s.served)
		_ = s.http.Serve(ln) // always ErrServerClosed
	}()
	return s, nil
}

// Addr returns the registry's host for use in image references, "127.0.0.1:port".
func (s *Server) Addr() string { return s.ln.Addr().String() }

// URL returns the base URL without a trailing slash.
func (s *Server) URL() string { return "http://" + s.Addr() }

// Close stops the server, aborts requests in flight and waits for the listener. It may
// be called more than once.
func (s *Server) Close() error {
	err := s.http.Close()
	s.done() // after closing connections; otherwise slow responses would still be sent
	<-s.served
	return err
}

// SetUser adds a user or changes a password. Existing tokens stay valid, as with real
// registries.
func (s *Server) SetUser(name, password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[name] = password
}

// RemoveUser removes a user. Existing tokens stay valid.
func (s *Server) RemoveUser(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.users, name)
}

// ServeHTTP handles and records a request. Tests also use it to serve the registry
// under another host name.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := s.authenticate(r)
	rec := &responseRecorder{ResponseWriter: w, record: func(status int) { s.logRequest(r, id, status) }}
	s.respond(rec, r, id)
	rec.recordOnce(http.StatusOK)
}

func (s *Server) respond(w http.ResponseWriter, r *http.Request, id authResult) {
	fault := s.faults.Next(func(f Fault) bool { return f.matches(r) })
	switch {
	case fault == nil:
		s.serve(w, r, id)
	case !s.writeFault(w, r, fault):
		fault.respondChanged(w, r, func(w http.ResponseWriter) { s.serve(w, r, id) })
	}
}

// serve sends the correct response.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, id authResult) {
	switch {
	case r.URL.Path == tokenPath:
		s.serveToken(w, r, id)
	case !s.authorize(w, r, id):
	case s.opts.RedirectBlobs != "" && r.Method == http.MethodGet && requestEndpoint(r) == EndpointBlobs:
		http.Redirect(w, r, s.opts.RedirectBlobs+r.URL.Path, http.StatusTemporaryRedirect)
	default:
		s.storage.ServeHTTP(w, r)
	}
}

// writeError writes an error in the format of the distribution specification.
func writeError(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	type diagnostic map[string]string
	body := map[string][]diagnostic{"errors": {{"code": code, "message": message}}}
	_ = json.NewEncoder(w).Encode(body) // fails only if the client has disconnected
}
