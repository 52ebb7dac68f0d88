// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// maxErrorBodySize limits the body of a response with an error status, in bytes.
const maxErrorBodySize = 32 << 10

// The minimum rate of a response. It is canceled if fewer than minRateBytes arrive while the reader
// waits for minRatePeriod. This is about 500 bytes per second, a quarter of the rate of the slowest
// usable connections.
const (
	minRatePeriod = time.Minute
	minRateBytes  = 32 << 10
)

// wireTransport is the innermost transport. All requests pass through it, including
// token requests, redirects and retries. It rejects hosts and schemes that are not
// allowed, cancels stalled and slow responses, limits the size of error responses, and
// collects secrets.
type wireTransport struct {
	inner    http.RoundTripper
	target   Target
	idle     time.Duration
	secrets  *Secrets
	forToken bool // the requests go to token servers
}

func (w *wireTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	w.secrets.addFromRequest(req, w.forToken)
	if err := w.target.checkURL(req.URL); err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	timeout := fmt.Errorf("received no data from %q for %s: %w", req.URL.Host, w.idle, errIdleTimeout)
	timer := time.AfterFunc(w.idle, func() { cancel(timeout) })
	req = req.WithContext(ctx)
	resp, err := w.inner.RoundTrip(req)
	timer.Stop()
	if err != nil {
		err = timeoutOr(ctx, timeout, err)
		cancel(nil)
		return nil, err
	}
	b := &responseBody{ReadCloser: resp.Body, ctx: ctx, cancel: cancel, timer: timer, idle: w.idle, timeout: timeout, left: -1, host: req.URL.Host}
	resp.Body = b
	if resp.StatusCode >= http.StatusBadRequest {
		b.left = maxErrorBodySize
	}
	return resp, nil
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

	waited  time.Duration // in this period
	arrived int           // in this period
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
