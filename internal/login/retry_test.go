// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// statusSequence returns a transport whose responses have the given statuses and Retry-After
// values. The last response is repeated.
func statusSequence(list ...string) roundTripper {
	n := 0
	return func(r *http.Request) (*http.Response, error) {
		a := list[min(n, len(list)-1)]
		n++
		if a == "cut" {
			return nil, &net.OpError{Op: "read", Err: errors.New("connection reset")}
		}
		if a == "refused" {
			return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
		}
		var status int
		var after string
		fmt.Sscanf(a, "%d %s", &status, &after)
		return &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {after}}, Body: io.NopCloser(strings.NewReader("x"))}, nil
	}
}

func TestRetryWaits(t *testing.T) {
	for _, tt := range []struct {
		name     string
		policy   RetryOptions
		answers  []string
		want     int // status; 0: an error
		min, max time.Duration
	}{
		{"fine", RetryOptions{}, []string{"200"}, 200, 0, 0},
		{"404 is final", RetryOptions{}, []string{"404", "200"}, 404, 0, 0},
		{"401 is final", RetryOptions{}, []string{"401", "200"}, 401, 0, 0},
		{"501 is final", RetryOptions{}, []string{"501", "200"}, 501, 0, 0},
		{"Retry-After in seconds", RetryOptions{}, []string{"429 7", "200"}, 200, 7 * time.Second, 7 * time.Second},
		{"503 has one too", RetryOptions{}, []string{"503 7", "200"}, 200, 7 * time.Second, 7 * time.Second},
		{"Retry-After nonsense", RetryOptions{}, []string{"429 soon", "200"}, 200, 125 * time.Millisecond, 375 * time.Millisecond},
		{"Retry-After 0", RetryOptions{}, []string{"429 0", "200"}, 200, 125 * time.Millisecond, 375 * time.Millisecond},
		{"for ever, 10 s each", RetryOptions{}, []string{"429 10"}, 429, 30 * time.Second, 30 * time.Second},
		{"for ever, 12 s each", RetryOptions{}, []string{"429 12"}, 429, 24 * time.Second, 24 * time.Second},
		{"longer than the budget", RetryOptions{}, []string{"429 31", "200"}, 429, 0, 0},
		{"a larger budget", RetryOptions{Budget: time.Minute}, []string{"429 31", "200"}, 200, 31 * time.Second, 31 * time.Second},
		{"500 for ever", RetryOptions{}, []string{"500"}, 500, 875 * time.Millisecond, 2625 * time.Millisecond},
		{"two attempts", RetryOptions{Attempts: 2}, []string{"500", "500", "200"}, 500, 125 * time.Millisecond, 375 * time.Millisecond},
		{"cut", RetryOptions{}, []string{"cut", "200"}, 200, 125 * time.Millisecond, 375 * time.Millisecond},
		{"cannot connect", RetryOptions{}, []string{"refused", "200"}, 0, 0, 0},
		{"absurd policy", RetryOptions{Wait: -1, Attempts: 60}, []string{"500"}, 500, 0, time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &retrier{inner: statusSequence(tt.answers...), budget: NewRetryBudget(tt.policy)}
				req, _ := http.NewRequestWithContext(t.Context(), "GET", "https://example.com", nil)
				began := time.Now()
				resp, err := r.RoundTrip(req)
				took := time.Since(began)
				got := 0
				if err == nil {
					got = resp.StatusCode
					resp.Body.Close()
				}
				if got != tt.want || took < tt.min || took > tt.max {
					t.Errorf("status %d after %s, want %d after %s to %s", got, took, tt.want, tt.min, tt.max)
				}
			})
		})
	}
}

func TestRetryEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := &retrier{inner: statusSequence("429 10"), budget: NewRetryBudget(RetryOptions{})}
		req, _ := http.NewRequestWithContext(ctx, "GET", "https://example.com", nil)
		began := time.Now()
		resp, err := r.RoundTrip(req)
		if err != nil || resp.StatusCode != 429 || time.Since(began) != time.Second {
			t.Errorf("got %v, %v after %s, want the 429 after 1s", resp, err, time.Since(began))
		}
	})
}

func TestRetryOnlyGET(t *testing.T) {
	calls := 0
	inner := statusSequence("500")
	r := &retrier{budget: NewRetryBudget(RetryOptions{Wait: time.Microsecond}), inner: roundTripper(func(r *http.Request) (*http.Response, error) {
		calls++
		return inner(r)
	})}
	req, _ := http.NewRequest("POST", "https://example.com", strings.NewReader("x"))
	if resp, err := r.RoundTrip(req); err != nil || resp.StatusCode != 500 || calls != 1 {
		t.Errorf("got %v, %v after %d calls, want the 500 after 1", resp, err, calls)
	}
}

// TestNoWaitFor429 verifies that a 429 is not retried if waiting is disabled. Other
// failures are retried.
func TestNoWaitFor429(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for answer, want := range map[string]int{"429 7": 429, "503 7": 200} {
			r := &retrier{inner: statusSequence(answer, "200"), budget: NewRetryBudget(RetryOptions{})}
			req, _ := http.NewRequestWithContext(WithoutRateLimitWait(t.Context()), "GET", "https://example.com", nil)
			if resp, err := r.RoundTrip(req); err != nil || resp.StatusCode != want {
				t.Errorf("%s: got %v, %v, want %d", answer, resp, err, want)
			}
		}
	})
}

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for h, want := range map[string]time.Duration{
			"": 0, "x": 0, "-1": 0, "1.5": 0, "5": 5 * time.Second,
			"99999999999999999999": 0,
			time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat): 90 * time.Second,
		} {
			refusal := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {h}}}
			if _, got := shouldRetry(refusal, nil); got != want {
				t.Errorf("Retry-After: %q asks for %s, want %s", h, got, want)
			}
		}
	})
}

func TestIsConnectionCut(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{io.ErrUnexpectedEOF, true},
		{fmt.Errorf("x: %w", io.EOF), true},
		{&net.OpError{Op: "read", Err: errors.New("x")}, true},
		{&net.OpError{Op: "dial", Err: errors.New("x")}, false},
		{errors.New("stream error: stream ID 7; INTERNAL_ERROR"), true},
		{errors.New("http2: server sent GOAWAY and closed the connection"), true},
		{context.Canceled, false},
		{errIdleTimeout, false},
	} {
		if got := IsBrokenConnection(tt.err); got != tt.want {
			t.Errorf("IsCut(%v) = %t, want %t", tt.err, got, tt.want)
		}
	}
}
