// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testregistry

import (
	"net/http"
	"slices"
	"time"
)

// maxLog limits the access log; the oldest requests are dropped.
const maxLog = 10_000

// Request is one entry of the access log. It never holds a password or token.
type Request struct {
	Time   time.Time // when the response started
	Method string
	Path   string // without the query
	Status int
	Scheme string // "Basic", "Bearer", "Form" (a login by POST), or "" for an anonymous request
	User   string // as sent, also with a wrong password; for a token, the user it was issued to
}

// Requests returns the access log, oldest first.
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

func (s *Server) record(r *http.Request, id identity, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.log) == maxLog {
		s.log = slices.Delete(s.log, 0, maxLog/10)
	}
	s.log = append(s.log, Request{
		Time: s.opts.Now(), Method: r.Method, Path: r.URL.Path, Status: status,
		Scheme: id.scheme, User: id.user,
	})
}

// recorder records a response before its first byte is sent, so that the log contains
// every response that a client has received.
type recorder struct {
	http.ResponseWriter
	record func(status int) // nil after the call
}

func (r *recorder) once(status int) {
	if r.record != nil {
		r.record(status)
		r.record = nil
	}
}

func (r *recorder) WriteHeader(status int) {
	r.once(status)
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	r.once(http.StatusOK)
	return r.ResponseWriter.Write(p)
}

// Unwrap lets [http.ResponseController] flush.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
