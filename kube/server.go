// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube

import (
	"context"

	"github.com/regcred/regcred/internal/apiserver"
)

// server is the API server and the kind of credentials that the client uses for it.
type server struct {
	*apiserver.Server
	credentialKind string // for errors; see describeCredentials
}

// sendCall sends a request.
func (s *server) sendCall(ctx context.Context, q *apiCall, into any) error {
	if failure := s.GetObject(ctx, &q.Call, q.kind, into); failure != nil {
		return s.requestError(q, failure)
	}
	return nil
}

// noResponseError returns the error of a request without a usable response.
func (s *server) noResponseError(q *apiCall, why error) *Error {
	return s.requestError(q, &apiserver.Failure{Err: why})
}

// requestError returns the error of a failed request.
func (s *server) requestError(q *apiCall, f *apiserver.Failure) *Error {
	e := &Error{
		Verb: q.Verb, Resource: q.Resource, Namespace: q.Namespace, Name: q.Name, Host: s.URL(),
		Code: f.Code, Reason: f.Reason, Message: f.Message, RetryAfter: f.RetryAfter, Err: f.Err,
	}
	if f.Code != 0 {
		e.hint = q.responseHint(e, s.credentialKind)
	}
	return e
}
