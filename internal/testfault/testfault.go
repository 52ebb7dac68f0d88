// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package testfault chooses which requests go wrong, for the servers of tests
// and of the demo. What goes wrong is the server's own.
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

// Forever is how often a fault strikes that is there until it is removed.
const Forever = math.MaxInt

// Set is the faults of one server, of whatever type F it has for them. The
// zero value is empty. It is safe for concurrent use.
type Set[F any] struct {
	mu   sync.Mutex
	list []entry[F]
}

type entry[F any] struct {
	fault F
	in    *Injected
}

// Inject adds a fault: after so many matching requests that are let through it
// strikes so many times, 0 meaning once. Of several that match a request, the
// one added first applies, and only that one counts the request.
func (s *Set[F]) Inject(fault F, after, times int) *Injected {
	if times == 0 {
		times = 1
	}
	in := &Injected{after: after}
	in.left.Store(int64(times))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, entry[F]{fault, in})
	return in
}

// Next counts a request and returns the fault that strikes it, or nil.
func (s *Set[F]) Next(matches func(F) bool) *F {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.list {
		e := &s.list[i]
		if e.in.left.Load() <= 0 || !matches(e.fault) {
			continue
		}
		if e.in.after > 0 {
			e.in.after--
			return nil
		}
		e.in.left.Add(-1)
		e.in.hits.Add(1)
		return &e.fault
	}
	return nil
}

// Clear removes all faults.
func (s *Set[F]) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = nil
}

// Injected is a fault in a server. The zero value is none.
type Injected struct {
	after int          // how many matching requests it lets through yet; guarded by the set's mu
	left  atomic.Int64 // how many it strikes yet
	hits  atomic.Int64
}

// Hits is how many requests the fault has struck.
func (in *Injected) Hits() int { return int(in.hits.Load()) }

// Remove takes the fault out again. A request that it holds up stays so.
func (in *Injected) Remove() { in.left.Store(0) }

// Wait waits for at most a minute, so that a test that forgets a slow answer
// ends. It reports whether the client is still there.
func Wait(ctx context.Context, d time.Duration) bool {
	return remote.Pause(ctx, min(d, time.Minute))
}

// SetRetryAfter asks a client to wait, if d is not 0, and returns for how many
// seconds: rounded up.
func SetRetryAfter(header http.Header, d time.Duration) (seconds int) {
	if seconds = int(math.Ceil(d.Seconds())); seconds > 0 {
		header.Set("Retry-After", strconv.Itoa(seconds))
	}
	return seconds
}
