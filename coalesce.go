// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/regcred/regcred/plugin"
)

// Concurrent lookups that one answer can serve wait for one exec, a flight.
//
// A flight is found under what its answer is expected to be good for: the
// scope of the provider's last answer or, while none is known, the provider.
// That is a hint; when the answer is there, it decides. It serves a waiter
// that asked for the same image, or whose image its scope covers and one of
// its keys matches; an answer that must not be cached serves the same image
// alone. The others go on: under the scope that is now known or, if the flight
// failed or that brings nothing new, each under its own image, side by side.
// So nobody waits for more than three execs, and a failure stays with the
// image that had it; a failure to get a token, with the pod that had it.
//
// A flight belongs to its waiters: it outlives the lookup that began it and
// is cancelled when the last of them leaves. Identities never share one.

// flight is one exec and those who wait for it.
type flight struct {
	key     cacheKey // what its answer is expected under; without a scope, the whole provider
	image   string   // that the plugin is asked about
	done    chan struct{}
	cancel  context.CancelFunc
	waiters int  // guarded by runner.mu, as is ahead
	ahead   bool // one of the waiters is nobody: the answer is for later

	// Set before done is closed.
	answer   *answer
	err      error
	duration time.Duration
}

// outcome is what a provider had to say to one lookup.
type outcome struct {
	answer   *answer
	cache    CacheResult
	duration time.Duration
	err      error
}

// peek looks into the cache where that is all there is to a hit.
func (r *runner) peek(q question, now time.Time) *answer {
	if r.tokens != nil || r.host.opts.RefreshAhead > 0 {
		return nil
	}
	return r.cache.get(q, "", now)
}

// answer returns an answer for q from the cache, from an exec of its own or
// from one that is under way.
func (r *runner) answer(ctx context.Context, q question, id *identity) outcome {
	if a := r.cache.get(q, id.key, time.Now()); a != nil {
		r.refreshAhead(a, q, id)
		return outcome{answer: a, cache: CacheHit}
	}
	if err := r.backingOff(q, id); err != nil {
		return outcome{err: err}
	}
	var last *flight
	for {
		if err := ctx.Err(); err != nil {
			return outcome{err: err} // nobody would wait for the exec
		}
		a, f, began := r.join(q, id, last)
		switch {
		case a != nil && last == nil:
			return outcome{answer: a, cache: CacheHit}
		case a != nil:
			return outcome{answer: a, cache: CacheCoalesced}
		}
		if err := r.wait(ctx, f); err != nil {
			return outcome{err: err}
		}
		switch {
		case began || f.image == q.name && stageOf(f.err) != StageToken:
			return f.outcome(began) // a token is asked for by the pod that leads, and another may have more luck
		case f.err == nil && f.answer.serves(q):
			return f.outcome(false)
		}
		last = f
	}
}

func (f *flight) outcome(began bool) outcome {
	o := outcome{answer: f.answer, duration: f.duration, err: f.err, cache: CacheCoalesced}
	if began {
		o.cache = CacheMiss
	}
	return o
}

// join returns the flight to wait for, and whether it was begun for q. last
// is the flight that did not serve q, if there was one. If an answer got into
// the cache in the meantime, that is returned instead.
func (r *runner) join(q question, id *identity, last *flight) (a *answer, f *flight, began bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// A flight stores its answer before it leaves the map, so looking here
	// once more leaves no gap between the cache and the flights.
	a = r.cache.get(q, id.key, time.Now())
	if a != nil && (last == nil || a.serves(q)) {
		return a, nil, false
	}
	key := r.expect(q, id, last)
	if last != nil && last.image == q.name {
		return nil, r.begin(key, q, id, false), true // or pods without a token would fail one after the other
	}
	if f = r.flights[key]; f != nil {
		f.waiters++
		return nil, f, false
	}
	return nil, r.begin(key, q, id, true), true
}

// expect returns where to look for a flight that may serve q.
func (r *runner) expect(q question, id *identity, last *flight) cacheKey {
	own := cacheKey{plugin.CacheImage, q.name, id.key}
	if last != nil && (last.err != nil || last.key.scope != "") {
		return own
	}
	switch {
	case r.scope != "":
		return cacheKey{r.scope, q.base(r.scope), id.key}
	case last != nil:
		return own
	}
	return cacheKey{identity: id.key}
}

// begin starts a flight, which others find if it is shared; r.mu is held. It
// hangs on the keyring's context, not on that of the lookup.
func (r *runner) begin(key cacheKey, q question, id *identity, shared bool) *flight {
	ctx, cancel := context.WithCancel(r.host.ctx)
	f := &flight{key: key, image: q.name, done: make(chan struct{}), cancel: cancel, waiters: 1}
	fly := func() {
		defer cancel()
		start := time.Now()
		a, err := r.exec(ctx, q, id)
		if id.key == "" {
			r.noteBackoff(q, err)
		}
		r.finish(f, a, err, time.Since(start))
	}
	if !r.host.background(fly) {
		cancel()
		f.err = ErrClosed
		close(f.done)
		return f
	}
	if shared {
		r.flights[key] = f
	}
	return f
}

// finish publishes the result of a flight.
func (r *runner) finish(f *flight, a *answer, err error, d time.Duration) {
	f.answer, f.err, f.duration = a, err, d
	if a != nil && a.cached() && r.cache.put(a) {
		r.host.observe(Event{Kind: EventEvict, Provider: r.name, Image: f.image})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(f)
	if a != nil {
		r.scope = a.key.scope
		if !a.cached() {
			r.scope = plugin.CacheImage // such an answer serves its own image alone
		}
	}
	close(f.done)
}

// forget takes f out of the map unless another flight has taken its place; r.mu is held.
func (r *runner) forget(f *flight) {
	if r.flights[f.key] == f {
		delete(r.flights, f.key)
	}
}

// wait waits for f, or leaves it when ctx ends.
func (r *runner) wait(ctx context.Context, f *flight) error {
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		r.leave(f)
		return fmt.Errorf("waiting for the plugin: %w", ctx.Err())
	}
}

// leave takes one waiter from f, and cancels it after the last.
func (r *runner) leave(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(f)
}

// drop is leave while r.mu is held.
func (r *runner) drop(f *flight) {
	if f.waiters--; f.waiters == 0 {
		r.forget(f) // nobody may join what is about to fail
		f.cancel()
	}
}

// refreshAhead asks the plugin in the background when a, which has just been
// used, comes to its end. It is off unless Options.RefreshAhead is set.
func (r *runner) refreshAhead(a *answer, q question, id *identity) {
	ahead := r.host.opts.RefreshAhead
	if ahead <= 0 || id.key != "" {
		return
	}
	now := time.Now()
	// An answer that lives no longer than ahead would be refreshed by every use.
	ahead = min(ahead, a.expires.Sub(a.stored)/4)
	ahead -= rand.N(ahead/10 + 1)
	last := a.refreshed.Load()
	if a.expires.Sub(now) > ahead || now.UnixNano()-last < int64(ahead/10+time.Second) || !a.refreshed.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flights[a.key] == nil && !r.retired {
		r.begin(a.key, q, id, true).ahead = true
	}
}

// retire ends what is done for later: nobody will ask r any more but lookups
// that are under way.
func (r *runner) retire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retired = true
	for _, f := range r.flights {
		if f.ahead {
			f.ahead = false
			r.drop(f)
		}
	}
}

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
	if r.host.opts.Backoff <= 0 || id.key != "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	b, ok := r.backoff[q.name]
	now := time.Now()
	if !ok || !now.Before(b.until) {
		return nil
	}
	return failAt(StageBackoff, "not run again for another %v, because: %w", b.until.Sub(now).Round(time.Millisecond), b.err)
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
	b.until = time.Now().Add(b.wait - rand.N(b.wait/4+1))
	b.err = err
	r.backoff[q.name] = b
}
