// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// maxDelay limits the delay between two attempts, unless the endpoint requests a longer
// one.
const maxDelay = 5 * time.Second

// retryDelay returns the delay after an attempt. The delay has jitter, because all nodes of a
// cluster may fail at the same time. It is at least as long as the endpoint requests.
func retryDelay(attempt int, base, asked time.Duration) time.Duration {
	d := min(base<<(attempt-1), maxDelay)
	d = d/2 + rand.N(d/2+1)
	return max(d, asked)
}

// Sleep waits for the delay. If ctx would be done first, it returns false immediately,
// so that the error is returned before the deadline.
func Sleep(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// maxRetryAfter limits the delay that an endpoint can request.
const maxRetryAfter = time.Hour

// RetryAfter returns the delay requested by a response received at now, from 0 to one
// hour. It returns false if the response requests none or the value is invalid. The
// Retry-After header contains seconds or a date (RFC 9110, section 10.2.3).
func RetryAfter(header http.Header, now time.Time) (time.Duration, bool) {
	text := header.Get("Retry-After")
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Duration(min(max(seconds, 0), int64(maxRetryAfter/time.Second))) * time.Second, true
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter), true
	}
	return 0, false
}

// IsPermanent reports whether retrying cannot succeed after an error returned by
// [Cause].
func IsPermanent(cause error) bool { return errors.Is(cause, errPermanent) }

var errPermanent = errors.New("retrying does not help")

// permanentError is an error that matches errPermanent.
type permanentError struct{ error }

func (permanentError) Is(target error) bool { return target == errPermanent }
func (p permanentError) Unwrap() error      { return p.error }
