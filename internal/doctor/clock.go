// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"net/http"
	"sync"
	"time"
)

// Clock compares the clocks of an API server and this machine.
type Clock struct {
	Now  func() time.Time
	skew time.Duration // how far the server is ahead
	seen bool
}

// Watch returns a transport that reads the server's time from the first response. The
// transport may be used concurrently.
func (s *Clock) Watch(next http.RoundTripper) http.RoundTripper {
	return &clockTransport{next: next, clock: s}
}

type clockTransport struct {
	next  http.RoundTripper
	clock *Clock
	first sync.Once
}

func (t *clockTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := t.clock.Now()
	resp, err := t.next.RoundTrip(req)
	if err == nil {
		t.first.Do(func() { t.clock.read(sent, resp.Header.Get("Date")) })
	}
	return resp, err
}

// read takes the middle of the exchange as the time of the response.
func (s *Clock) read(sent time.Time, answered string) {
	date, err := http.ParseTime(answered)
	if s.seen = err == nil; s.seen {
		s.skew = date.Sub(sent.Add(s.Now().Sub(sent) / 2))
	}
}
