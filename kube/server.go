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

// server is the API server as one client reaches it.
type server struct {
	*apiserver.Server
	who string // what the client shows it, for errors
}

// do asks the API server until it answers, as far as asking again is safe and the
// time allows: as with client-go, a call that reads an object.
func (s *server) do(ctx context.Context, q *call, into runtime.Object) error {
	c, err := q.http()
	if err != nil {
		return s.fail(q, err)
	}
	body, failure := s.Do(ctx, c)
	if failure != nil {
		return s.failed(q, failure)
	}
	// What is wrong with it is not said: the error of a decoder may quote it.
	if json.Unmarshal(body, into) != nil || into.GetObjectKind().GroupVersionKind().Kind != q.kind {
		return s.fail(q, fmt.Errorf("the response is not a %s: check that this is the address of an API server", q.kind))
	}
	return nil
}

// http is the call as it is sent.
func (q *call) http() (*apiserver.Call, error) {
	c := &apiserver.Call{Path: q.path, Query: q.query, Most: q.most, Repeat: q.verb == "get"}
	if q.body == nil {
		return c, nil
	}
	var err error
	c.Method = http.MethodPost
	c.Body, err = json.Marshal(q.body)
	return c, err
}

// fail is the error of a call without an answer that is of use.
func (s *server) fail(q *call, why error) *Error {
	return s.failed(q, &apiserver.Failure{Err: why})
}

// failed is the error of a call that did not succeed.
func (s *server) failed(q *call, f *apiserver.Failure) *Error {
	e := &Error{
		Verb: q.verb, Resource: q.resource, Namespace: q.namespace, Name: q.name, Host: s.URL(),
		Code: f.Code, Reason: f.Reason, Message: f.Message, RetryAfter: f.RetryAfter, Err: f.Err,
	}
	if f.Code != 0 {
		e.hint = q.hint(e, s.who)
	}
	return e
}
