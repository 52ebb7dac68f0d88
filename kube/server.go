// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/remote"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// maxObject bounds an answer in bytes. An object in etcd has at most 1.5 MiB,
// and a secret's data grow by a third in JSON.
const maxObject = 4 << 20

// call is one question to the API server. The words are those of its
// permissions (RBAC), and of errors.
type call struct {
	verb            string // get, list, watch, create
	resource        string // in the plural, with the subresource
	namespace, name string
	audience        string // of a token

	kind  string   // that the answer must have
	path  []string // below the base address
	query url.Values
	body  any // sent as JSON
	most  int64
}

// object is the call that reads one object of the core group.
func object(kind, resource, namespace, name string) *call {
	return &call{
		verb: "get", resource: resource, namespace: namespace, name: name,
		kind: kind, path: []string{"api", "v1", "namespaces", namespace, resource, name},
	}
}

// do asks the API server until it answers, as far as asking again is safe and
// the time allows.
func (c *Client) do(ctx context.Context, q *call, into runtime.Object) error {
	if err := q.check(); err != nil {
		return c.fail(q, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.opts.Timeout, timeoutError(c.opts.Timeout))
	defer cancel()
	again := true // once, if there is no answer
	for {
		err := c.once(ctx, q, into)
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

// brokeOff reports whether a connection, or a stream of it, ended before the
// answer did. The errors of HTTP/2 have no types outside net/http.
func brokeOff(err error) bool {
	text := err.Error()
	return utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err) ||
		errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(text, "stream error: ") || strings.Contains(text, "GOAWAY")
}

// once asks once.
func (c *Client) once(ctx context.Context, q *call, into runtime.Object) *Error {
	resp, err := c.send(ctx, q)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, readErr := io.ReadAll(io.LimitReader(resp.Body, q.limit()+1))
	switch {
	case readErr != nil:
		return c.noAnswer(ctx, q, readErr)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return c.refused(q, resp, body)
	case int64(len(body)) > q.limit():
		return c.fail(q, fmt.Errorf("the answer is longer than %d bytes", q.limit()))
	}
	// What is wrong with it is not said: the error of a decoder may quote it.
	if json.Unmarshal(body, into) != nil || into.GetObjectKind().GroupVersionKind().Kind != q.kind {
		return c.fail(q, fmt.Errorf("the answer is not a %s: is this the address of an API server?", q.kind))
	}
	return nil
}

// send returns the header of the answer; the caller closes its body.
func (c *Client) send(ctx context.Context, q *call) (*http.Response, *Error) {
	req, err := c.request(ctx, q)
	if err != nil {
		return nil, c.fail(q, err)
	}
	type answer struct {
		resp *http.Response
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		resp, err := c.http.Do(req)
		done <- answer{resp, err}
	}()
	select {
	case a := <-done:
		if a.err != nil {
			return nil, c.noAnswer(ctx, q, a.err)
		}
		return a.resp, nil
	case <-ctx.Done():
		// client-go waits for a program that gives credentials whatever the context says.
		go func() {
			if a := <-done; a.err == nil {
				a.resp.Body.Close()
			}
		}()
		return nil, c.noAnswer(ctx, q, ctx.Err())
	}
}

func (c *Client) request(ctx context.Context, q *call) (*http.Request, error) {
	method, body := http.MethodGet, []byte(nil)
	if q.body != nil {
		var err error
		if body, err = json.Marshal(q.body); err != nil {
			return nil, err
		}
		method = http.MethodPost
	}
	u := *c.base
	segments := make([]string, len(q.path))
	for i, s := range q.path {
		segments[i] = url.PathEscape(s)
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

// check refuses names that would change the path.
func (q *call) check() error {
	for _, s := range q.path {
		if !isPathSegment(s) {
			return fmt.Errorf("%q cannot be a namespace or name", s)
		}
	}
	return nil
}

func isPathSegment(s string) bool {
	if s == "" || s == "." || s == ".." || len(s) > 253 {
		return false
	}
	for _, r := range s {
		if r == '/' || r == '%' {
			return false
		}
	}
	return true
}

func (q *call) limit() int64 {
	if q.most > 0 {
		return q.most
	}
	return maxObject
}

// refused is the error of an answer that is none of success.
func (c *Client) refused(q *call, resp *http.Response, body []byte) *Error {
	e := c.fail(q, nil)
	e.Code, e.RetryAfter = resp.StatusCode, retryAfter(resp)
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Kind == "Status" {
		e.Reason, e.Message = string(status.Reason), clean(status.Message)
	}
	e.hint = q.hint(e, c.who)
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

// timeoutError is why a call that took too long has ended.
func timeoutError(after time.Duration) error {
	return fmt.Errorf("it takes longer than %v: %w", after, context.DeadlineExceeded)
}
