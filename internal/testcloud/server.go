// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

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

// Request is one request as a [Server] got it.
type Request struct {
	Time   time.Time
	Method string
	Host   string
	Path   string
	Query  url.Values
	Header http.Header
	Body   []byte
}

// Form returns the fields of a form in the body.
func (r Request) Form() url.Values {
	values, _ := url.ParseQuery(string(r.Body))
	return values
}

// JSON returns the members of a JSON object in the body.
func (r Request) JSON() map[string]any {
	var members map[string]any
	json.Unmarshal(r.Body, &members)
	return members
}

// String is the line by which tests compare requests: "GET host/path".
func (r Request) String() string { return r.Method + " " + r.Host + r.Path }

// Fault is something that goes wrong with matching requests. It replaces the
// answer.
type Fault struct {
	Path  string             // only requests whose host and path contain this
	Match func(Request) bool // if set, only requests for which it is true
	Times int                // how many matching requests then fail; 0 means one, negative all

	Hang   bool          // never answers; ends when the client goes away
	Drop   bool          // closes the connection without an answer
	Cut    bool          // promises more of the body than it sends
	Delay  time.Duration // before whatever follows; at most a minute
	Status int           // 0 with neither Hang nor Drop lets the request through, after Delay
	Header http.Header
	Body   string
}

// Server answers as its handler does, records every request, and fails when
// told to. It is an http.Handler, for a [Net], and listens on loopback too.
type Server struct {
	handler http.Handler
	http    *httptest.Server

	mu       sync.Mutex
	requests []Request
	faults   testfault.Set[Fault]
}

// Serve starts a server. Close it.
func Serve(handler http.Handler) *Server {
	s := &Server{handler: handler}
	s.http = httptest.NewServer(s)
	return s
}

// URL is the address of the server: "http://127.0.0.1:PORT".
func (s *Server) URL() string { return s.http.URL }

// Addr is host and port of the server.
func (s *Server) Addr() string { return s.http.Listener.Addr().(*net.TCPAddr).String() }

// Close ends the server, and the requests that it lets hang.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// Requests returns what was asked so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Lines returns what was asked so far, as [Request.String] has it.
func (s *Server) Lines() []string {
	var lines []string
	for _, r := range s.Requests() {
		lines = append(lines, r.String())
	}
	return lines
}

// Reset forgets requests and faults.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
	s.faults.Clear()
}

// Inject adds a fault. Of several that match, the first one strikes.
func (s *Server) Inject(f Fault) {
	times := f.Times
	if times < 0 {
		times = testfault.Forever
	}
	s.faults.Inject(f, 0, times)
}

// ServeHTTP records the request and answers it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	r.Body = io.NopCloser(bytes.NewReader(body))
	struck := s.record(Request{
		Time: time.Now(), Method: r.Method, Host: r.Host, Path: r.URL.Path,
		Query: r.URL.Query(), Header: r.Header.Clone(), Body: body,
	})
	if struck == nil || !struck.serve(w, r) {
		s.handler.ServeHTTP(w, r)
	}
}

// record returns the fault that strikes the request, if any.
func (s *Server) record(r Request) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	return s.faults.Next(func(f Fault) bool {
		return strings.Contains(r.Host+r.Path, f.Path) && (f.Match == nil || f.Match(r))
	})
}

// serve answers in place of the handler; it returns false if that is to answer.
func (f *Fault) serve(w http.ResponseWriter, r *http.Request) bool {
	if f.Hang {
		<-r.Context().Done()
	}
	if !testfault.Wait(r.Context(), f.Delay) || f.Drop || f.Hang {
		// It closes the connection, and is not logged; returning would be an answer, with status 200.
		panic(http.ErrAbortHandler)
	}
	if f.Status == 0 {
		return false
	}
	for key, values := range f.Header {
		w.Header()[http.CanonicalHeaderKey(key)] = values
	}
	if f.Cut {
		w.Header().Set("Content-Length", "1000000")
	}
	w.WriteHeader(f.Status)
	io.WriteString(w, f.Body)
	if f.Cut {
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	return true
}

// writeJSON answers with a JSON document.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}
