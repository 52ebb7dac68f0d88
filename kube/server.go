// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/regcred/regcred/internal/await"
	"github.com/regcred/regcred/internal/remote"
)

// server is the API server as one client reaches it.
type server struct {
	http    *http.Client
	base    *url.URL
	who     string        // what the client shows it, for errors
	timeout time.Duration // of one call, repetitions included
}

// do asks the API server until it answers, as far as asking again is safe and
// the time allows.
func (s *server) do(ctx context.Context, q *call, into runtime.Object) error {
	if err := q.check(); err != nil {
		return s.fail(q, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, timeoutError(s.timeout))
	defer cancel()
	again := true // once, if there is no answer
	for {
		err := s.once(ctx, q, into)
		if err == nil {
			return nil
		}
		wait := err.RetryAfter
		if wait == 0 {
			if !again || !q.repeatable(err) {
				return err
			}
			again, wait = false, 50*time.Millisecond
		}
		if !remote.Pause(ctx, wait+rand.N(wait/4)) {
			return err
		}
	}
}

// repeatable reports whether a call may be repeated that got no answer because
// its connection ended: as with client-go, one that reads an object.
func (q *call) repeatable(e *Error) bool {
	return q.verb == "get" && e.cause != nil && brokeOff(e.cause)
}

// once asks once.
func (s *server) once(ctx context.Context, q *call, into runtime.Object) *Error {
	resp, err := s.send(ctx, q)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, readErr := io.ReadAll(io.LimitReader(resp.Body, q.limit()+1))
	switch {
	case readErr != nil:
		return s.noAnswer(ctx, q, readErr)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return s.refused(q, resp, body)
	case int64(len(body)) > q.limit():
		return s.fail(q, fmt.Errorf("the answer is longer than %d bytes", q.limit()))
	}
	// What is wrong with it is not said: the error of a decoder may quote it.
	if json.Unmarshal(body, into) != nil || into.GetObjectKind().GroupVersionKind().Kind != q.kind {
		return s.fail(q, fmt.Errorf("the answer is not a %s: is this the address of an API server?", q.kind))
	}
	return nil
}

// send returns the header of the answer; the caller closes its body.
func (s *server) send(ctx context.Context, q *call) (*http.Response, *Error) {
	req, err := s.request(ctx, q)
	if err != nil {
		return nil, s.fail(q, err)
	}
	// client-go waits for a program that gives credentials whatever the context
	// says, and a transport that wraps its own may do anything.
	resp, err := await.Result(ctx, "send", func() (*http.Response, error) {
		resp, err := s.http.Do(req)
		if err == nil && ctx.Err() != nil { // nobody waits for it any more
			resp.Body.Close()
			return nil, ctx.Err()
		}
		return resp, err
	})
	if err != nil {
		return nil, s.noAnswer(ctx, q, err)
	}
	return resp, nil
}

func (s *server) request(ctx context.Context, q *call) (*http.Request, error) {
	method, body := http.MethodGet, []byte(nil)
	if q.body != nil {
		var err error
		if body, err = json.Marshal(q.body); err != nil {
			return nil, err
		}
		method = http.MethodPost
	}
	u := *s.base
	segments := make([]string, len(q.path))
	for i, segment := range q.path {
		segments[i] = url.PathEscape(segment)
	}
	u = *u.JoinPath(segments...)
	u.RawQuery = q.query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// refused is the error of an answer that is none of success.
func (s *server) refused(q *call, resp *http.Response, body []byte) *Error {
	e := s.fail(q, nil)
	e.Code, e.RetryAfter = resp.StatusCode, retryAfter(resp)
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Kind == "Status" {
		e.Reason, e.Message = string(status.Reason), clean(status.Message)
	}
	e.hint = q.hint(e, s.who)
	return e
}

// retryAfter is for how long the API server asks to wait, as it does when it
// has not begun to serve a request. A wait of zero is taken for a second.
func retryAfter(resp *http.Response) time.Duration {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode < 500 {
		return 0
	}
	wait, asked := remote.RetryAfter(resp.Header, time.Now())
	if !asked {
		return 0
	}
	return max(wait, time.Second)
}

// fail is the error of a call without an answer.
func (s *server) fail(q *call, why error) *Error {
	return &Error{Verb: q.verb, Resource: q.resource, Namespace: q.namespace, Name: q.name, Host: s.base.String(), Err: why, cause: why}
}

// noAnswer is the error of a call that broke off.
func (s *server) noAnswer(ctx context.Context, q *call, err error) *Error {
	e := s.fail(q, cause(ctx, err))
	e.cause = err
	return e
}

// timeoutError is why a call that took too long has ended.
func timeoutError(after time.Duration) error {
	return fmt.Errorf("it takes longer than %v: %w", after, context.DeadlineExceeded)
}
