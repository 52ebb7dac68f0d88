// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package testregistry is a real image registry on loopback, for tests and
// for `regcred demo`: an HTTP server that demands a login (Basic, or Bearer
// with a token endpoint), knows who may pull what, and fails on request.
//
//	reg, err := testregistry.New(testregistry.Options{
//		Auth:  testregistry.Bearer,
//		Users: map[string]string{"ci": "open-sesame"},
//	})
//	defer reg.Close()
//	digest, err := reg.Push("team/app", "v1", testregistry.Image{})
//	image := reg.Addr() + "/team/app:v1"
//
// Images are kept in memory and are gone with the server. It is not meant to
// serve anybody but the process that started it.
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

// Auth says how a [Server] demands a login.
type Auth int

// The ways to demand a login.
const (
	None   Auth = iota // everybody may do everything
	Basic              // RFC 7617, on every request
	Bearer             // the token flow of the distribution specification
)

// Options configure a [Server]. The zero value is an open registry.
type Options struct {
	Auth  Auth
	Users map[string]string // password by user name; see [Server.SetUser]

	// Rules say who may pull or push which repositories. Without rules every
	// user may do both everywhere.
	Rules []Rule

	// TokenTTL is how long a Bearer token is good for; 0 means 5 minutes.
	TokenTTL time.Duration

	// Now is the clock that tokens expire by; nil means [time.Now].
	Now func() time.Time

	// RedirectBlobs, if set, is the base URL to which downloads of blobs are
	// redirected, as many registries do to an object store: the request's
	// path is appended.
	RedirectBlobs string

	// BaseURL is where clients find the token server, without a slash at the
	// end; "" means [Server.URL]. It differs where the server is reached
	// under another name.
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

	faults testfault.Set[Fault]

	mu     sync.Mutex // guards what follows
	users  map[string]string
	tokens map[string]token
	log    []Request
}

// New starts a registry on a free port of 127.0.0.1. [Server.Close] ends it.
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
		// Clients that try TLS first are not worth a line on stderr.
		ErrorLog:    discard,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	go func() {
		defer close(s.served)
		_ = s.http.Serve(ln) // always ErrServerClosed: the listener is ours
	}()
	return s, nil
}

// Addr is the registry's host as image references have it, "127.0.0.1:port".
func (s *Server) Addr() string { return s.ln.Addr().String() }

// URL is the base URL, without a slash at the end.
func (s *Server) URL() string { return "http://" + s.Addr() }

// Close ends the server at once, requests in flight included, and waits for
// the listener. It may be called twice.
func (s *Server) Close() error {
	err := s.http.Close()
	s.done() // after the connections, or slow answers would still go out
	<-s.served
	return err
}

// SetUser adds a user or changes a password. Tokens issued before stay good,
// as with real registries.
func (s *Server) SetUser(name, password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[name] = password
}

// RemoveUser removes a user; tokens issued before stay good.
func (s *Server) RemoveUser(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.users, name)
}

// ServeHTTP answers one request and records it, for those who reach the
// registry under another name.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := s.identify(r)
	rec := &recorder{ResponseWriter: w, record: func(status int) { s.record(r, id, status) }}
	s.answer(rec, r, id)
	rec.once(http.StatusOK)
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, id identity) {
	fault := s.faults.Next(func(f Fault) bool { return f.matches(r) })
	if fault != nil && s.refuse(w, r, fault) {
		return
	}
	if fault != nil {
		w = fault.wrap(w, r)
	}
	switch {
	case r.URL.Path == tokenPath:
		s.serveToken(w, r, id)
	case !s.authorize(w, r, id):
	case s.opts.RedirectBlobs != "" && r.Method == http.MethodGet && endpointOf(r) == Blobs:
		http.Redirect(w, r, s.opts.RedirectBlobs+r.URL.Path, http.StatusTemporaryRedirect)
	default:
		s.storage.ServeHTTP(w, r)
	}
}

// writeError writes an error as the distribution specification has it.
func writeError(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	type diagnostic map[string]string
	body := map[string][]diagnostic{"errors": {{"code": code, "message": message}}}
	_ = json.NewEncoder(w).Encode(body) // fails only if the client has gone
}
