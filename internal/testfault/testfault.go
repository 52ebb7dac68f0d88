// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package testfault selects which requests fail, for servers used in tests and in the
// demo. Each server defines its own kinds of faults.
package testfault

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regcred/regcred/internal/remote"
)

// Forever is the count of a fault that applies until it is removed.
const Forever = math.MaxInt

// FaultSet holds the faults of one server, of type F. The zero value is empty. It is safe
// for concurrent use.
type FaultSet[F any] struct {
	mu   sync.Mutex
	list []faultEntry[F]
}

type faultEntry[F any] struct {
	fault    F
	injected *InjectedFault
}

// Inject adds a fault. The fault skips the first matching requests and then applies to
// the given number of requests; 0 means one. If several faults match a request, only
// the one added first applies and counts the request.
func (s *FaultSet[F]) Inject(fault F, after, times int) *InjectedFault {
	if times == 0 {
		times = 1
	}
	in := &InjectedFault{after: after}
	in.left.Store(int64(times))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, faultEntry[F]{fault, in})
	return in
}

// Next counts a request and returns the fault that applies to it, or nil.
func (s *FaultSet[F]) Next(matches func(F) bool) *F {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.list {
		e := &s.list[i]
		if e.injected.left.Load() <= 0 || !matches(e.fault) {
			continue
		}
		if e.injected.after > 0 {
			e.injected.after--
			return nil
		}
		e.injected.left.Add(-1)
		e.injected.hits.Add(1)
		return &e.fault
	}
	return nil
}

// Clear removes all faults.
func (s *FaultSet[F]) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = nil
}

// InjectedFault is a fault added to a server. The zero value does nothing.
type InjectedFault struct {
	after int          // matching requests still to skip; guarded by the set's mu
	left  atomic.Int64 // matching requests still to fail
	hits  atomic.Int64
}

// Hits returns the number of requests that failed.
func (in *InjectedFault) Hits() int { return int(in.hits.Load()) }

// Remove removes the fault. It does not release a waiting request.
func (in *InjectedFault) Remove() { in.left.Store(0) }

// Sleep waits for d, but at most a minute, so that a test always ends. It reports
// whether the client is still connected.
func Sleep(ctx context.Context, d time.Duration) bool {
	return remote.Sleep(ctx, min(d, time.Minute))
}

// SetRetryAfter sets Retry-After if d is not 0, and returns its value in seconds,
// rounded up.
func SetRetryAfter(header http.Header, d time.Duration) (seconds int) {
	if seconds = int(math.Ceil(d.Seconds())); seconds > 0 {
		header.Set("Retry-After", strconv.Itoa(seconds))
	}
	return seconds
}
