// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"maps"
	"math/rand/v2"
	"time"

	"github.com/regcred/regcred/plugin"
)

// backoff is for how long a plugin is not run again for an image.
type backoff struct {
	wait  time.Duration
	until time.Time
	err   error
}

// maxBackoffs bounds how many images are remembered for having failed.
const maxBackoffs = 1000

// backingOff returns the failure that keeps q from being asked again just yet.
func (r *runner) backingOff(q question, id *identity) error {
	if id.key != "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	b, ok := r.backoff[q.name]
	now := time.Now()
	if !ok || !now.Before(b.until) {
		return nil
	}
	return failAt(StageBackoff, "backing off for %v after a failure: %w", b.until.Sub(now).Round(time.Millisecond), b.err)
}

// noteBackoff remembers a failure, or that there is none any more.
func (r *runner) noteBackoff(q question, err error) {
	most := r.host.opts.Backoff
	if most <= 0 || stageOf(err) == plugin.StageCanceled {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		delete(r.backoff, q.name)
		return
	}
	if len(r.backoff) >= maxBackoffs {
		now := time.Now()
		maps.DeleteFunc(r.backoff, func(_ string, b backoff) bool { return now.After(b.until) })
	}
	b, known := r.backoff[q.name]
	if !known && len(r.backoff) >= maxBackoffs {
		return
	}
	b.wait = min(max(2*b.wait, time.Second), most)
	b.until = time.Now().Add(jittered(b.wait, 4))
	b.err = err
	r.backoff[q.name] = b
}

// jittered is d less up to a part of it, so that a fleet does not ask at once.
func jittered(d, part time.Duration) time.Duration {
	return d - rand.N(d/part+1)
}
