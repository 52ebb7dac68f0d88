// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Bounds of answers that are not content, in bytes.
const (
	maxLoginBody = 1 << 20  // the ping, and tokens
	maxErrorBody = 32 << 10 // anything with an error status
)

// loginKey marks the context of a login.
type loginKey struct{}

// wire is the innermost transport. Every request passes it, whoever makes
// it: go-containerregistry's login, redirects, retries. It refuses hosts and
// schemes that a pull has no business with, ends a request on which nothing
// arrives, and bounds what nobody else bounds.
type wire struct {
	inner  http.RoundTripper
	target target
	idle   time.Duration
}

func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := w.target.checkURL(req.URL); err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	timeout := fmt.Errorf("nothing arrived from %q for %s: %w", req.URL.Host, w.idle, errIdle)
	timer := time.AfterFunc(w.idle, func() { cancel(timeout) })
	resp, err := w.inner.RoundTrip(req.WithContext(ctx))
	timer.Stop()
	if err != nil {
		err = orCause(ctx, timeout, err)
		cancel(nil)
		return nil, err
	}
	b := &body{ReadCloser: resp.Body, ctx: ctx, cancel: cancel, timer: timer, idle: w.idle, timeout: timeout, left: -1}
	if login, _ := req.Context().Value(loginKey{}).(bool); login {
		b.left = maxLoginBody
	}
	if resp.StatusCode >= http.StatusBadRequest {
		b.left = maxErrorBody
	}
	resp.Body = b
	return resp, nil
}

// orCause returns the timeout instead of an error that is only its consequence.
func orCause(ctx context.Context, timeout, err error) error {
	if context.Cause(ctx) == timeout {
		return timeout
	}
	return err
}

// body is a response body that fails if nothing arrives for too long. The
// time between reads does not count.
type body struct {
	io.ReadCloser
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	idle    time.Duration
	timeout error
	left    int64 // bytes until it is cut short; negative: no bound
}

func (b *body) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	if b.left > 0 {
		p = p[:min(int64(len(p)), b.left)]
	}
	b.timer.Reset(b.idle)
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	if b.left > 0 {
		b.left -= int64(n)
	}
	if err != nil && err != io.EOF {
		err = orCause(b.ctx, b.timeout, err)
	}
	return n, err
}

func (b *body) Close() error {
	b.timer.Stop()
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
