// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package testcloud simulates the cloud endpoints that this repository's plugins use. They are HTTP
// servers on loopback that record requests and can inject faults.
//
// If an SDK reads the addresses of endpoints from the environment, use the variables that the
// server's Environ method returns. They keep all requests on this machine. If the host names are
// fixed, use a [FakeNetwork], which is a proxy that terminates TLS with its own CA.
//
//	net, err := testcloud.NewFakeNetwork()
//	defer net.Close()
//	net.Handle("sts.googleapis.com", server)
//	cmd.Env = net.Environ()
//
// The servers are only for the process that started them.
package testcloud

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/regcred/regcred/internal/testfault"
)

// Request is a request that a [Server] received.
type Request struct {
	Time   time.Time
	Method string
	Host   string
	Path   string
	Query  url.Values
	Header http.Header
	Body   []byte
}

// Form returns the fields of a form body.
func (r Request) Form() url.Values {
	values, _ := url.ParseQuery(string(r.Body))
	return values
}

// JSONBody returns the members of a JSON object in the body.
func (r Request) JSONBody() map[string]any {
	var members map[string]any
	json.Unmarshal(r.Body, &members)
	return members
}

// String returns the method, host and path, as in "GET host/path".
func (r Request) String() string { return r.Method + " " + r.Host + r.Path }

// Fault replaces the responses to matching requests.
type Fault struct {
	Path  string             // only requests whose host and path contain this string match
	Match func(Request) bool // only requests for which this returns true match; nil means all
	Times int                // number of matching requests that fail; 0 means one, negative means all

	Hang     bool          // never responds; ends when the client disconnects
	Drop     bool          // closes the connection without a response
	Truncate bool          // sends fewer bytes than the Content-Length
	Delay    time.Duration // before the fault's response; at most a minute
	Status   int           // 0 means that the handler responds after Delay, unless Hang or Drop is set
	Header   http.Header
	Body     string
}

// Server calls its handler, records every request, and injects faults. It listens on loopback. It
// is also an http.Handler, for use in a [FakeNetwork].
type Server struct {
	handler http.Handler
	http    *httptest.Server

	mu       sync.Mutex
	requests []Request
	faults   testfault.FaultSet[Fault]
}

// NewServer starts a server. The caller must close it.
func NewServer(handler http.Handler) *Server {
	s := &Server{handler: handler}
	s.http = httptest.NewServer(s)
	return s
}

// URL returns "http://127.0.0.1:PORT".
func (s *Server) URL() string { return s.http.URL }

// Addr returns the host and port.
func (s *Server) Addr() string { return s.http.Listener.Addr().(*net.TCPAddr).String() }

// Close stops the server and interrupts hanging requests.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// Requests returns all requests since the start or the last Reset.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// RequestLines returns all requests in the format of [Request.String].
func (s *Server) RequestLines() []string {
	var lines []string
	for _, r := range s.Requests() {
		lines = append(lines, r.String())
	}
	return lines
}

// Reset forgets all requests and faults.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
	s.faults.Clear()
}

// Inject adds a fault. If several faults match a request, the first one applies.
func (s *Server) Inject(f Fault) {
	times := f.Times
	if times < 0 {
		times = testfault.Forever
	}
	s.faults.Inject(f, 0, times)
}

// ServeHTTP records and handles a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	r.Body = io.NopCloser(bytes.NewReader(body))
	struck := s.recordRequest(Request{
		Time: time.Now(), Method: r.Method, Host: r.Host, Path: r.URL.Path,
		Query: r.URL.Query(), Header: r.Header.Clone(), Body: body,
	})
	if struck == nil || !struck.serveFault(w, r) {
		s.handler.ServeHTTP(w, r)
	}
}

// recordRequest records a request and returns the fault to inject, or nil.
func (s *Server) recordRequest(r Request) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	return s.faults.Next(func(f Fault) bool {
		return strings.Contains(r.Host+r.Path, f.Path) && (f.Match == nil || f.Match(r))
	})
}

// serveFault sends the fault's response. It returns false if the handler must respond.
func (f *Fault) serveFault(w http.ResponseWriter, r *http.Request) bool {
	if f.Hang {
		<-r.Context().Done()
	}
	if !testfault.Sleep(r.Context(), f.Delay) || f.Drop || f.Hang {
		// This closes the connection without a log message. After a return, net/http would send
		// status 200.
		panic(http.ErrAbortHandler)
	}
	if f.Status == 0 {
		return false
	}
	for key, values := range f.Header {
		w.Header()[http.CanonicalHeaderKey(key)] = values
	}
	if f.Truncate {
		w.Header().Set("Content-Length", "1000000")
	}
	w.WriteHeader(f.Status)
	io.WriteString(w, f.Body)
	if f.Truncate {
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	return true
}

// guardedState holds the state of a simulated cloud.
type guardedState[S any] struct {
	mu    sync.Mutex
	state S
}

// Update changes the state for all later responses.
func (s *guardedState[S]) Update(change func(*S)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.state)
}

func (s *guardedState[S]) currentState() S {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}
