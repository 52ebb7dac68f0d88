// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// Size limits for responses that are not content, in bytes.
const (
	maxLoginBodySize = 1 << 20  // pings and tokens
	maxErrorBodySize = 32 << 10 // any response with an error status
)

// The minimum rate of a response. A response is canceled if fewer than minRateBytes arrive while
// the reader waits for minRatePeriod. This is about 500 bytes per second, a quarter of the rate of
// the slowest usable connections.
const (
	minRatePeriod = time.Minute
	minRateBytes  = 32 << 10
)

// wireTransport is the innermost transport. All requests pass through it, including
// go-containerregistry's logins, redirects and retries. It rejects hosts and schemes
// that are not allowed, cancels stalled and slow responses, limits their size, and
// collects secrets.
type wireTransport struct {
	inner   http.RoundTripper
	target  Target
	idle    time.Duration
	secrets *Secrets
}

func (w *wireTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	req, content := unmarkContentRequest(req)
	w.secrets.addFromRequest(req, content)
	body, err := w.checkRequest(req)
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	timeout := fmt.Errorf("received no data from %q for %s: %w", req.URL.Host, w.idle, errIdleTimeout)
	timer := time.AfterFunc(w.idle, func() { cancel(timeout) })
	req = req.WithContext(ctx)
	req.Body = body
	resp, err := w.inner.RoundTrip(req)
	timer.Stop()
	if err != nil {
		err = timeoutOr(ctx, timeout, err)
		cancel(nil)
		return nil, err
	}
	b := &responseBody{ReadCloser: resp.Body, ctx: ctx, cancel: cancel, timer: timer, idle: w.idle, timeout: timeout, left: -1, host: req.URL.Host}
	resp.Body = b
	if !content {
		b.left = maxLoginBodySize
		resp.Body, resp.ContentLength = &filteredBody{ReadCloser: b, filter: w.secrets.filterTokenResponse}, -1
	}
	if resp.StatusCode >= http.StatusBadRequest {
		b.left = maxErrorBodySize
	}
	return resp, nil
}

// checkRequest rejects a request that must not be sent. It returns the body to send.
func (w *wireTransport) checkRequest(req *http.Request) (io.ReadCloser, error) {
	if err := w.target.checkURL(req.URL); err != nil {
		return nil, err
	}
	if u, ok := req.Body.(*uploadBody); ok && u.started.Swap(true) {
		if req.GetBody == nil {
			return nil, errBodyNotReplayable
		}
		return req.GetBody()
	}
	return req.Body, nil
}

// timeoutOr returns timeout if the timeout caused err, and err otherwise.
func timeoutOr(ctx context.Context, timeout, err error) error {
	if context.Cause(ctx) == timeout {
		return timeout
	}
	return err
}

// responseBody is a response body with an idle timeout and a minimum rate. Time between reads is
// not counted.
type responseBody struct {
	io.ReadCloser
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	idle    time.Duration
	timeout error
	left    int64 // remaining bytes until the body is cut off; negative means no limit
	host    string

	waited  time.Duration // waiting time in the current period
	arrived int           // bytes received in the current period
}

func (b *responseBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	if b.left > 0 {
		p = p[:min(int64(len(p)), b.left)]
	}
	b.timer.Reset(b.idle)
	began := time.Now()
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	if b.left > 0 {
		b.left -= int64(n)
	}
	switch {
	case err == nil:
		err = b.checkRate(n, time.Since(began))
	case err != io.EOF:
		err = timeoutOr(b.ctx, b.timeout, err)
	}
	return n, err
}

// checkRate returns an error if too few bytes arrived in the last period.
func (b *responseBody) checkRate(n int, took time.Duration) error {
	b.waited += took
	b.arrived += n
	if b.waited < minRatePeriod {
		return nil
	}
	waited, arrived := b.waited, b.arrived
	b.waited, b.arrived = 0, 0
	// A single read can take longer than the period, so this compares rates.
	if float64(arrived)*minRatePeriod.Seconds() >= minRateBytes*waited.Seconds() {
		return nil
	}
	return fmt.Errorf("received %d bytes from %q in %s: %w", arrived, b.host, waited.Round(time.Second), errTooSlow)
}

func (b *responseBody) Close() error {
	b.timer.Stop()
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}

// filteredBody is the body of a login response. It is read completely and then filtered.
type filteredBody struct {
	io.ReadCloser
	filter func([]byte) []byte
	rest   io.Reader // nil until the body was filtered
	err    error     // error with which the body ended
}

func (a *filteredBody) Read(p []byte) (int, error) {
	if a.rest == nil {
		var raw []byte
		raw, a.err = io.ReadAll(a.ReadCloser)
		a.rest = bytes.NewReader(a.filter(raw))
	}
	n, err := a.rest.Read(p)
	if err == io.EOF && a.err != nil {
		err = a.err
	}
	return n, err
}

// contentHeader marks requests for content between [Session] and wireTransport. Requests of
// go-containerregistry's login do not have this header. Its value is the request's User-Agent. The
// header is never sent to a server.
const contentHeader = "Regcred-Content"

func markContentRequest(req *http.Request) *http.Request {
	req = req.Clone(req.Context()) // round trippers may only change a copy
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set(contentHeader, req.UserAgent())
	if req.Body != nil && req.Body != http.NoBody {
		req.Body = &uploadBody{ReadCloser: req.Body}
	}
	return req
}

// unmarkContentRequest returns a copy of a request without the mark. The mark is kept
// on req, because req may be sent again.
func unmarkContentRequest(req *http.Request) (unmarked *http.Request, content bool) {
	signed, content := req.Header[contentHeader]
	if !content {
		return req, false
	}
	unmarked = req.WithContext(req.Context()) // a shallow copy
	unmarked.Header = req.Header.Clone()
	delete(unmarked.Header, contentHeader)
	if signed[0] != "" {
		unmarked.Header.Set("User-Agent", signed[0])
	}
	return unmarked, true
}

// uploadBody is the body of a request that go-containerregistry may send again with
// a new token, after the body was read.
type uploadBody struct {
	io.ReadCloser
	started atomic.Bool
}

// cloneForResend returns a copy of a request for sending it again, or nil if its body
// cannot be read again.
func cloneForResend(req *http.Request) *http.Request {
	if req.Body == nil || req.Body == http.NoBody {
		return req
	}
	if req.GetBody == nil {
		return nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil
	}
	req = req.Clone(req.Context())
	req.Body = body
	return req
}
