// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testkube

import (
	"slices"

	"github.com/regcred/regcred/plugin"
)

// Request is what a client asked.
type Request struct {
	Verb      string // get, list, create, patch
	Group     string // of the API; "" is the core group
	Resource  string // in the plural, with the subresource: "serviceaccounts/token"
	Namespace string
	Name      string
	User      string // "" if the bearer token is none of ours
	UserAgent string

	// Of a TokenRequest.
	AccountUID          string
	Audiences           []string
	BoundKind           string // "v1/Pod"; "" if it is bound to nothing
	BoundName, BoundUID string
	ExpirationSeconds   *int64
	Token               plugin.Secret // that was minted; "" if none was

	index int // in the log
}

// Log returns what clients have asked, in order.
func (s *Server) Log() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// Calls counts requests, refused ones too. "" is any verb or resource.
func (s *Server) Calls(verb, resource string) int {
	n := 0
	for _, r := range s.Log() {
		if (verb == "" || verb == r.Verb) && (resource == "" || resource == r.Resource) {
			n++
		}
	}
	return n
}

// record logs a request and returns the fault that strikes it, if any.
func (s *Server) record(req *Request) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	req.index = len(s.log)
	s.log = append(s.log, *req)
	return s.faults.Next(func(f Fault) bool { return f.matches(*req) })
}
