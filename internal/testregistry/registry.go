// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package testregistry is a real image registry on loopback, for tests and for
// `regcred demo`. It is an HTTP server with authentication (Basic, or Bearer with a
// token endpoint), access rules and fault injection.
//
//	reg, err := testregistry.New(testregistry.Options{
//		Auth:  testregistry.AuthBearer,
//		Users: map[string]string{"ci": "open-sesame"},
//	})
//	defer reg.Close()
//	digest, err := reg.Push("team/app", "v1", testregistry.Image{})
//	image := reg.Addr() + "/team/app:v1"
//
// Images are kept in memory.
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
	"slices"
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

	// Now returns the time for token expiry and the access log; nil means [time.Now].
	Now func() time.Time

	// RedirectBlobs, if set, is the base URL to which blob downloads are redirected, as
	// many registries redirect to object stores. The request's path is appended.
	RedirectBlobs string

	// TokenServerURL is the base URL of the token server, without a trailing slash. ""
	// means [Server.URL]. Set it if clients use another host name.
	TokenServerURL string
}

// Server is a running registry. It is safe for concurrent use.
type Server struct {
	opts           Options
	storage        http.Handler
	ln             net.Listener
	http           *http.Server
	cancelRequests context.CancelFunc
	served         chan struct{}

	faults testfault.FaultSet[Fault]

	mu     sync.Mutex // guards the fields below
	users  map[string]string
	tokens map[string]issuedToken
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
		opts:           opts,
		storage:        registry.New(registry.Logger(discard), registry.WithReferrersSupport(true)),
		ln:             ln,
		cancelRequests: cancel,
		served:         make(chan struct{}),
		users:          map[string]string{},
		tokens:         map[string]issuedToken{},
	}
	if opts.TokenServerURL == "" {
		s.opts.TokenServerURL = s.URL()
	}
	maps.Copy(s.users, opts.Users)
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		// Do not log an error for each client that tries TLS first.
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
	s.cancelRequests() // after closing connections; otherwise slow responses would still be sent
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
		s.serveRequest(w, r, id)
	case !s.writeFault(w, r, fault):
		fault.respondChanged(w, r, func(w http.ResponseWriter) { s.serveRequest(w, r, id) })
	}
}

// serveRequest sends the correct response, without faults.
func (s *Server) serveRequest(w http.ResponseWriter, r *http.Request, id authResult) {
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

// maxLogEntries limits the length of the access log. The oldest requests are dropped.
const maxLogEntries = 10_000

// Request is an entry in the access log. It never contains a password or token.
type Request struct {
	Time   time.Time // when the response started
	Method string
	Path   string // without the query
	Status int
	Scheme string // "Basic", "Bearer", "Form" (credentials in a POST), or "" if anonymous
	User   string // as sent, also with a wrong password; for a token, the user it was issued to
}

// Requests returns the access log in chronological order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// ResetLog empties the access log.
func (s *Server) ResetLog() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = nil
}

func (s *Server) logRequest(r *http.Request, id authResult, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.log) == maxLogEntries {
		s.log = slices.Delete(s.log, 0, maxLogEntries/10)
	}
	s.log = append(s.log, Request{
		Time: s.opts.Now(), Method: r.Method, Path: r.URL.Path, Status: status,
		Scheme: id.scheme, User: id.user,
	})
}

// responseRecorder records a response before its first byte is sent, so that the log contains
// every response that a client has received.
type responseRecorder struct {
	http.ResponseWriter
	record func(status int) // nil after the call
}

func (r *responseRecorder) recordOnce(status int) {
	if r.record != nil {
		r.record(status)
		r.record = nil
	}
}

func (r *responseRecorder) WriteHeader(status int) {
	r.recordOnce(status)
	r.ResponseWriter.WriteHeader(status)
}

func (r *responseRecorder) Write(p []byte) (int, error) {
	r.recordOnce(http.StatusOK)
	return r.ResponseWriter.Write(p)
}

// Unwrap supports [http.ResponseController].
func (r *responseRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
