// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"net/http"
	"time"
)

// ClockSkew compares an API server's clock with this machine's.
type ClockSkew struct {
	Now      func() time.Time
	skew     time.Duration // how far the server's clock is ahead
	measured bool
}

// WrapTransport returns a transport that reads the server's time from the first
// response. The transport is safe for concurrent use.
func (s *ClockSkew) WrapTransport(next http.RoundTripper) http.RoundTripper {
	return &clockTransport{next: next, clock: s}
}

// measure takes the middle of the exchange as the time at which the response was sent.
func (s *ClockSkew) measure(sent time.Time, answered string) {
	date, err := http.ParseTime(answered)
	if s.measured = err == nil; s.measured {
		s.skew = date.Sub(sent.Add(s.Now().Sub(sent) / 2))
	}
}
