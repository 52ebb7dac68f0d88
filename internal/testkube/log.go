// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package testkube

import (
	"slices"

	"github.com/regcred/regcred/plugin"
)

// Request is a client's request.
type Request struct {
	Verb      string // get, list, create, patch
	Group     string // API group; "" is the core group
	Resource  string // plural, with any subresource, as in "serviceaccounts/token"
	Namespace string
	Name      string
	User      string // "" if the bearer token is unknown
	UserAgent string

	// For a TokenRequest.
	AccountUID          string
	Audiences           []string
	BoundKind           string // "v1/Pod"; "" if the token is not bound
	BoundName, BoundUID string
	ExpirationSeconds   *int64
	Token               plugin.Secret // the issued token; empty after an error

	index int // in the log
}

// Requests returns the clients' requests in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// CountRequests counts requests, including rejected ones. "" matches any verb or resource.
func (s *Server) CountRequests(verb, resource string) int {
	n := 0
	for _, r := range s.Requests() {
		if (verb == "" || verb == r.Verb) && (resource == "" || resource == r.Resource) {
			n++
		}
	}
	return n
}

func (s *Server) logRequest(req *Request) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	req.index = len(s.log)
	s.log = append(s.log, *req)
	return s.faults.Next(func(f Fault) bool { return f.matches(*req) })
}
