// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"fmt"
	"io"
	"net/http"
	"time"
)

// maxErrorBodySize limits the body of a response with an error status, in bytes.
const maxErrorBodySize = 32 << 10

// The minimum rate of a response. A response is canceled if fewer than minRateBytes arrive while
// the reader waits for minRatePeriod. This is about 500 bytes per second, a quarter of the rate of
// the slowest usable connections.
const (
	minRatePeriod = time.Minute
	minRateBytes  = 32 << 10
)

// limitedTransport is the innermost transport. All requests pass through it, including
// token requests, redirects and retries. It rejects hosts and schemes that are not
// allowed, cancels stalled and slow responses, limits the size of error responses, and
// collects secrets.
type limitedTransport struct {
	inner    http.RoundTripper
	target   Target
	idle     time.Duration
	response time.Duration // replaces idle until a content request is responded to
	secrets  *Secrets
	forToken bool // the requests go to token servers
}

func (w *limitedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	w.secrets.addFromRequest(req, w.forToken)
	if err := w.target.checkURL(req.URL); err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	limit := w.response
	if w.forToken || req.URL.Path == "/v2/" {
		limit = w.idle
	}
	ctx, progress := newProgressTimer(req.Context(), req.URL.Host, limit)
	req = req.WithContext(ctx)
	progress.trackUpload(req)
	resp, err := w.inner.RoundTrip(req)
	if err != nil {
		defer progress.release()
		return nil, progress.timeoutOr(err)
	}
	progress.setLimit(0)
	b := &responseBody{ReadCloser: resp.Body, progress: progress, idle: w.idle, remaining: -1, host: req.URL.Host}
	resp.Body = b
	if resp.StatusCode >= http.StatusBadRequest {
		b.remaining = maxErrorBodySize
	}
	return resp, nil
}

// responseBody is a response body with an idle timeout and a minimum rate. Time between reads is
// not counted.
type responseBody struct {
	io.ReadCloser
	progress  *progressTimer
	idle      time.Duration
	remaining int64 // remaining bytes until the body is cut off; negative means no limit
	host      string

	waited  time.Duration // waiting time in the current period
	arrived int           // bytes received in the current period
}

func (b *responseBody) Read(p []byte) (int, error) {
	if b.remaining == 0 {
		return 0, io.EOF
	}
	if b.remaining > 0 {
		p = p[:min(int64(len(p)), b.remaining)]
	}
	b.progress.setLimit(b.idle)
	began := time.Now()
	n, err := b.ReadCloser.Read(p)
	b.progress.setLimit(0)
	if b.remaining > 0 {
		b.remaining -= int64(n)
	}
	switch {
	case err == nil:
		err = b.checkRate(n, time.Since(began))
	case err != io.EOF:
		err = b.progress.timeoutOr(err)
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
	defer b.progress.release()
	return b.ReadCloser.Close()
}
