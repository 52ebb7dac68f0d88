// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"net/http"
	"sync"
	"time"
)

// ClockSkew compares an API server's clock with this machine's.
type ClockSkew struct {
	Now      func() time.Time
	next     http.RoundTripper
	first    sync.Once
	skew     time.Duration // how far the server's clock is ahead
	measured bool
}

// WrapTransport returns a transport that reads the server's time from the first
// response. The transport is safe for concurrent use.
func (s *ClockSkew) WrapTransport(next http.RoundTripper) http.RoundTripper {
	s.next = next
	return s
}

// RoundTrip takes the middle of the exchange as the time at which the response was sent.
func (s *ClockSkew) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := s.Now()
	resp, err := s.next.RoundTrip(req)
	if err == nil {
		s.first.Do(func() {
			date, err := http.ParseTime(resp.Header.Get("Date"))
			if s.measured = err == nil; s.measured {
				s.skew = date.Sub(sent.Add(s.Now().Sub(sent) / 2))
			}
		})
	}
	return resp, err
}
