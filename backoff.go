// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"maps"
	"math/rand/v2"
	"time"

	"github.com/regcred/regcred/plugin"
)

// backoff records how long a plugin must not run again for an image for which it failed.
type backoff struct {
	wait  time.Duration
	until time.Time
	err   error
}

// maxBackoffs limits the number of images with a backoff, per provider.
const maxBackoffs = 1000

// backoffError returns an error that wraps the last failure if the plugin must not run for key
// yet. Otherwise it returns nil.
func (r *runner) backoffError(key lookupKey, id *identity) error {
	if id.key != "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	b, ok := r.backoff[key.name]
	now := time.Now()
	if !ok || !now.Before(b.until) {
		return nil
	}
	return newStageError(StageBackoff, "backing off for %v after a failure: %w", b.until.Sub(now).Round(time.Millisecond), b.err)
}

// updateBackoff starts or extends the backoff for key. If err is nil, it removes the backoff.
func (r *runner) updateBackoff(key lookupKey, err error) {
	limit := r.env.opts.Backoff
	if limit <= 0 || errorStage(err) == plugin.StageCanceled {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		delete(r.backoff, key.name)
		return
	}
	if len(r.backoff) >= maxBackoffs {
		now := time.Now()
		maps.DeleteFunc(r.backoff, func(_ string, b backoff) bool { return now.After(b.until) })
	}
	b, known := r.backoff[key.name]
	if !known && len(r.backoff) >= maxBackoffs {
		return
	}
	b.wait = min(max(2*b.wait, time.Second), limit)
	b.until = time.Now().Add(subtractJitter(b.wait, 4))
	b.err = err
	r.backoff[key.name] = b
}

// subtractJitter subtracts a random amount of up to d/divisor from d, so that the nodes of a
// fleet do not send their requests at the same time.
func subtractJitter(d, divisor time.Duration) time.Duration {
	return d - rand.N(d/divisor+1)
}
