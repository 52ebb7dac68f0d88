// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package apiserver

import (
	"net/http"
	"testing"
	"time"
)

// TestRetryAfter verifies how long to wait for each Retry-After header.
func TestRetryAfter(t *testing.T) {
	for _, tt := range []struct {
		code int
		says string
		want time.Duration
	}{
		{http.StatusTooManyRequests, "2", 2 * time.Second},
		{http.StatusServiceUnavailable, "2", 2 * time.Second},
		{http.StatusTooManyRequests, "0", time.Second},
		{http.StatusTooManyRequests, "-5", time.Second},
		{http.StatusTooManyRequests, "9999999999", time.Hour},
		{http.StatusTooManyRequests, "soon", 0},
		{http.StatusTooManyRequests, "", 0},
		{http.StatusForbidden, "2", 0},
	} {
		resp := &http.Response{StatusCode: tt.code, Header: http.Header{"Retry-After": {tt.says}}}
		if got := retryAfter(resp); got != tt.want {
			t.Errorf("%d, %q: got %v, want %v", tt.code, tt.says, got, tt.want)
		}
	}
}
