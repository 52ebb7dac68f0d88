// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/regcred/regcred/internal/apiserver"
)

// server is the API server and the kind of credentials that the client uses for it.
type server struct {
	*apiserver.Server
	credentialKind string // kind of credentials, for errors
}

// send sends a request. Like client-go, it retries only reads, until the deadline.
func (s *server) send(ctx context.Context, q *apiCall, into runtime.Object) error {
	c, err := q.httpCall()
	if err != nil {
		return s.noResponseError(q, err)
	}
	body, failure := s.Do(ctx, c)
	if failure != nil {
		return s.requestError(q, failure)
	}
	// The decoder's error may quote the response, which may contain a secret.
	if json.Unmarshal(body, into) != nil || into.GetObjectKind().GroupVersionKind().Kind != q.kind {
		return s.noResponseError(q, fmt.Errorf("the response is not a %s: check that this is the address of an API server", q.kind))
	}
	return nil
}

func (q *apiCall) httpCall() (*apiserver.Call, error) {
	c := &apiserver.Call{Path: q.path, Query: q.query, Most: q.maxSize, Repeat: q.verb == "get"}
	if q.body == nil {
		return c, nil
	}
	var err error
	c.Method = http.MethodPost
	c.Body, err = json.Marshal(q.body)
	return c, err
}

// noResponseError returns the error of a request without a usable response.
func (s *server) noResponseError(q *apiCall, why error) *Error {
	return s.requestError(q, &apiserver.Failure{Err: why})
}

func (s *server) requestError(q *apiCall, f *apiserver.Failure) *Error {
	e := &Error{
		Verb: q.verb, Resource: q.resource, Namespace: q.namespace, Name: q.name, Host: s.URL(),
		Code: f.Code, Reason: f.Reason, Message: f.Message, RetryAfter: f.RetryAfter, Err: f.Err,
	}
	if f.Code != 0 {
		e.hint = q.responseHint(e, s.credentialKind)
	}
	return e
}
