// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"maps"
	"math/rand/v2"
	"time"

	"github.com/regcred/regcred/plugin"
)

// backoff delays the next run of a plugin that failed for an image.
type backoff struct {
	wait  time.Duration
	until time.Time
	err   error
}

// maxBackoffs limits the number of images with a backoff, per provider.
const maxBackoffs = 1000

// backoffError returns the last failure if the plugin must not run for key yet.
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

// updateBackoff extends the backoff for key after a failure, and removes it if
// err is nil.
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

// subtractJitter subtracts a random part of d, at most 1/divisor, so that a
// fleet does not send its requests at the same time.
func subtractJitter(d, divisor time.Duration) time.Duration {
	return d - rand.N(d/divisor+1)
}
