// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regcred/regcred/internal/must"
)

// slowBody is a body of size bytes that arrives in small parts.
type slowBody struct {
	size, chunk int
	every       time.Duration
}

func (d *slowBody) Read(p []byte) (int, error) {
	if d.size <= 0 {
		return 0, io.EOF
	}
	time.Sleep(d.every)
	n := min(d.chunk, d.size, len(p))
	d.size -= n
	return n, nil
}

func (d *slowBody) Close() error { return nil }

// TestFailedRequestIsReleased verifies that the context of a failed request is canceled
// immediately.
func TestFailedRequestIsReleased(t *testing.T) {
	var sent context.Context
	w := &limitedTransport{idle: time.Minute, secrets: &Secrets{}, inner: roundTripper(func(req *http.Request) (*http.Response, error) {
		sent = req.Context()
		return nil, io.ErrUnexpectedEOF
	})}
	req := must.Get(http.NewRequestWithContext(t.Context(), "GET", "https://example.com", nil))(t)
	if _, err := w.RoundTrip(req); err != io.ErrUnexpectedEOF {
		t.Errorf("got %v", err)
	}
	if sent.Err() == nil {
		t.Error("its context is still open")
	}
}

// TestMinimumRate verifies that a response below the minimum rate is aborted, and that
// a slow connection is not.
func TestMinimumRate(t *testing.T) {
	for _, tt := range []struct {
		name string
		body slowBody
		read time.Duration // delay of the reader between two reads
		want error
		took time.Duration
	}{
		{"a byte every 29 s", slowBody{1 << 20, 1, 29 * time.Second}, 0, errTooSlow, 87 * time.Second},
		{"a byte every second", slowBody{1 << 20, 1, time.Second}, 0, errTooSlow, time.Minute},
		{"2 kB/s", slowBody{4 << 20, 2000, time.Second}, 0, nil, 2098 * time.Second},
		{"2 kB/s in pieces of 29 s", slowBody{4 << 20, 58000, 29 * time.Second}, 0, nil, 29 * 73 * time.Second},
		{"just enough", slowBody{20 * minRateBytes, minRateBytes, time.Minute - time.Millisecond}, 0, nil, 20*time.Minute - 20*time.Millisecond},
		{"just too little", slowBody{20 * minRateBytes, minRateBytes/2 - 1, 30 * time.Second}, 0, errTooSlow, time.Minute},
		{"small, and whole within a minute", slowBody{50, 1, time.Second}, 0, nil, 50 * time.Second},
		{"a reader that takes its time", slowBody{1 << 10, 1, 10 * time.Millisecond}, time.Minute, nil, 1024*time.Minute + 1024*10*time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := tt.body
				w := &limitedTransport{idle: time.Minute, secrets: &Secrets{}, inner: roundTripper(func(*http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: 200, Body: &source}, nil
				})}
				req, _ := http.NewRequestWithContext(t.Context(), "GET", "https://example.com", nil)
				resp, err := w.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				began := time.Now()
				for err = nil; err == nil; time.Sleep(tt.read) {
					_, err = resp.Body.Read(make([]byte, 64<<10))
				}
				took := time.Since(began) - tt.read // without the delay after the last read
				if tt.want == nil && err != io.EOF || !errors.Is(err, tt.want) && tt.want != nil || took != tt.took {
					t.Errorf("got %v after %s, want %v after %s", err, took, tt.want, tt.took)
				}
			})
		})
	}
}

// TestMinimumRateOfEachPeriod verifies that a fast start does not compensate for a stalled end.
func TestMinimumRateOfEachPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := &slowBody{64 << 20, 1 << 20, time.Second}
		rest := &slowBody{1 << 20, 1, time.Second}
		source := struct {
			io.Reader
			io.Closer
		}{io.MultiReader(first, rest), rest}
		w := &limitedTransport{idle: time.Minute, secrets: &Secrets{}, inner: roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: source}, nil
		})}
		req, _ := http.NewRequestWithContext(t.Context(), "GET", "https://example.com", nil)
		resp, err := w.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		began := time.Now()
		_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, make([]byte, 1<<20))
		// The response becomes slow after 64 seconds, and the rate is checked once a minute.
		if took := time.Since(began); !errors.Is(err, errTooSlow) || took > 4*time.Minute {
			t.Errorf("got %v after %s", err, took)
		}
	})
}
