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

// RetryOptions configures retries after 429 and 5xx responses and broken connections.
// The zero value has sensible limits.
type RetryOptions struct {
	// Attempts is the maximum number of attempts per request; 0 means 4.
	Attempts int

	// Wait is how long to wait before the first retry; 0 means 250 ms. Each further
	// wait is twice as long. All waits have jitter. A Retry-After header replaces the
	// wait.
	Wait time.Duration

	// Budget limits the total waiting time of one [RetryBudget]; 0 means 30 seconds. If
	// Retry-After is longer than the remaining time, the request fails.
	Budget time.Duration
}

// RetryBudget is the remaining total time that one pull, or one request of a transport,
// may spend waiting. It is safe for concurrent use.
type RetryBudget struct {
	attempts  int
	wait      time.Duration
	mu        sync.Mutex
	remaining time.Duration
}

// NewRetryBudget returns a full budget.
func NewRetryBudget(r RetryOptions) *RetryBudget {
	return &RetryBudget{
		attempts:  cmp.Or(r.Attempts, 4),
		wait:      max(cmp.Or(r.Wait, 250*time.Millisecond), 1),
		remaining: cmp.Or(r.Budget, 30*time.Second),
	}
}

// Wait waits before attempt n+1, where n starts at 1. asked is the wait that the server requested;
// if it is not positive, Wait chooses one. Wait returns false if there must not be another attempt.
func (b *RetryBudget) Wait(ctx context.Context, n int, asked time.Duration) bool {
	wait := asked
	if wait <= 0 {
		wait = b.wait << min(n-1, 10)
		wait = wait/2 + rand.N(wait) // 0.5 to 1.5 times the wait
	}
	if n >= b.attempts || !b.takeTime(wait) {
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

func (b *RetryBudget) takeTime(d time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d > b.remaining {
		return false
	}
	b.remaining -= d
	return true
}

// retrier retries requests that fail before the body of the response begins. The reader of the body
// handles later failures.
type retrier struct {
	inner  http.RoundTripper
	budget *RetryBudget // nil means one per request
	retry  RetryOptions

	forToken bool // requests to token servers may always be sent again
}

func (r *retrier) RoundTrip(req *http.Request) (*http.Response, error) {
	budget := r.budget
	if budget == nil {
		budget = NewRetryBudget(r.retry)
	}
	repeatable := canResend(req) && (r.forToken || req.Method == http.MethodGet || req.Method == http.MethodHead)
	for n := 1; ; n++ {
		resp, err := r.inner.RoundTrip(req)
		again, asked := shouldRetry(resp, err)
		if !again || !repeatable || skipsRateLimitWait(req, resp) || !budget.Wait(req.Context(), n, asked) {
			return resp, err
		}
		if resp != nil {
			drainBody(resp)
		}
		if req = cloneForResend(req); req == nil {
			return nil, errBodyNotReplayable
		}
	}
}

type noRateLimitWaitKey struct{}

// WithoutRateLimitWait returns a context for requests that do not wait after a 429
// response, because the caller has another server to try.
func WithoutRateLimitWait(ctx context.Context) context.Context {
	return context.WithValue(ctx, noRateLimitWaitKey{}, true)
}

func skipsRateLimitWait(req *http.Request, resp *http.Response) bool {
	return resp != nil && resp.StatusCode == http.StatusTooManyRequests && req.Context().Value(noRateLimitWaitKey{}) != nil
}

func shouldRetry(resp *http.Response, err error) (again bool, asked time.Duration) {
	if err != nil {
		return IsBrokenConnection(err), 0
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

// IsBrokenConnection reports whether an established connection broke. It returns false if no
// connection was established, because a retry is then not worthwhile.
func IsBrokenConnection(err error) bool {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return true
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Op == "read" || op.Op == "write"
	}
	// net/http does not export the types of HTTP/2's errors.
	return strings.Contains(err.Error(), "stream error: stream ID") || strings.Contains(err.Error(), "http2: ")
}
