// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testregistry

import (
	"net/http"
	"slices"
	"time"
)

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
