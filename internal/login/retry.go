// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/regcred/regcred/internal/remote"
)

// Retry says how requests are repeated that got 429 or 5xx, or whose
// connection broke. The zero value has sensible bounds.
type Retry struct {
	// Attempts is how often one request is made, at most; 0 means 4.
	Attempts int

	// Wait is the first wait; each further one is twice as long, all with
	// jitter. 0 means 250 ms. A Retry-After takes its place.
	Wait time.Duration

	// Budget bounds the waiting that is done of one [Budget]; 0 means 30
	// seconds. A longer Retry-After is a failure.
	Budget time.Duration
}

// Budget is the waiting that one pull, or one request of a transport, may still
// do, with all its requests and credentials. It is safe for concurrent use.
type Budget struct {
	attempts int
	wait     time.Duration
	mu       sync.Mutex
	left     time.Duration
}

// NewBudget returns a whole one.
func NewBudget(r Retry) *Budget {
	return &Budget{
		attempts: cmp.Or(r.Attempts, 4),
		wait:     max(cmp.Or(r.Wait, 250*time.Millisecond), 1),
		left:     cmp.Or(r.Budget, 30*time.Second),
	}
}

// Pause waits before attempt n+1 (from 1), after what the server asked for if
// that is more than 0. It reports whether there is to be another attempt.
func (b *Budget) Pause(ctx context.Context, n int, asked time.Duration) bool {
	wait := asked
	if wait <= 0 {
		wait = b.wait << min(n-1, 10)
		wait = wait/2 + rand.N(wait) // between half and one and a half
	}
	if n >= b.attempts || !b.take(wait) {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (b *Budget) take(d time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d > b.left {
		return false
	}
	b.left -= d
	return true
}

// retrier repeats requests up to the point where the body begins; the rest is
// up to who reads the body.
type retrier struct {
	inner  http.RoundTripper
	budget *Budget // nil: one for each request
	retry  Retry
}

func (r *retrier) RoundTrip(req *http.Request) (*http.Response, error) {
	budget := r.budget
	if budget == nil {
		budget = NewBudget(r.retry)
	}
	for n := 1; ; n++ {
		resp, err := r.inner.RoundTrip(req)
		again, asked := worthRetrying(resp, err)
		// A body is gone once it has been sent.
		if !again || !isRead(req) || hurried(req, resp) || !budget.Pause(req.Context(), n, asked) {
			return resp, err
		}
		if resp != nil {
			_, _ = io.Copy(io.Discard, resp.Body) // bounded by the wire; saves the connection
			resp.Body.Close()
		}
	}
}

type hurry struct{}

// Hurried returns a context of requests that do not wait where a server asks
// for that (429): there is somebody else to ask with.
func Hurried(ctx context.Context) context.Context {
	return context.WithValue(ctx, hurry{}, true)
}

func hurried(req *http.Request, resp *http.Response) bool {
	return resp != nil && resp.StatusCode == http.StatusTooManyRequests && req.Context().Value(hurry{}) != nil
}

func isRead(req *http.Request) bool {
	return req.Method == http.MethodGet || req.Method == http.MethodHead
}

func worthRetrying(resp *http.Response, err error) (again bool, asked time.Duration) {
	if err != nil {
		return IsCut(err), 0
	}
	switch {
	case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode == http.StatusServiceUnavailable:
		asked, _ = remote.RetryAfter(resp.Header, time.Now())
		return true, asked
	case resp.StatusCode >= 500 && resp.StatusCode != http.StatusNotImplemented:
		return true, 0
	}
	return false, 0
}

// IsCut reports whether a connection broke once it stood. One that cannot be
// made is not worth another attempt.
func IsCut(err error) bool {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return true
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Op == "read" || op.Op == "write"
	}
	// HTTP/2's errors have no exported types.
	return strings.Contains(err.Error(), "stream error: stream ID") || strings.Contains(err.Error(), "http2: ")
}
