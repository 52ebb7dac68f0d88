// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/regcred/regcred/plugin"
)

// Concurrent lookups that one answer can serve wait for one exec, a flight.
//
// A flight is found under what its answer is expected to be good for: the
// scope of the provider's last answer. Where that was Global, or none is known
// yet, it is found under its host, and the first one also by other hosts, which
// wait only so long (see patience) and then begin one of their own.
// That is a hint; when the answer is there, it decides. It serves a waiter
// that asked for the same image, or whose image its scope covers and one of
// its keys matches. An answer that must not be cached, and a failure, are for
// the same image of the same pod alone.
//
// Who is not served goes on: once to the flight of its host, or what else is
// expected by then, if that is not what it comes from, and after that under its
// own image and pod, side by side with the others. So nobody waits for more than
// two execs that are not its own, and for that of another host two seconds at
// most.
//
// A flight belongs to its waiters: it outlives the lookup that began it and
// is cancelled when the last of them leaves. Identities never share one.

// For how long after its begin a flight keeps lookups for other hosts waiting:
// while nothing is known of the provider's answers, and where the last one was
// good for all of them.
const (
	patienceUnknown = 250 * time.Millisecond
	patienceGlobal  = 2 * time.Second
)

// flightKey is what a flight is found under: what its answer is expected to be
// cached under and, if it may be good for one pod alone, that pod. Without a
// scope it is the provider as a whole.
type flightKey struct {
	cacheKey
	pod TokenRequest
}

// flight is one exec and those who wait for it.
type flight struct {
	keys   []flightKey
	q      question     // that the plugin is asked
	pod    TokenRequest // on whose behalf; zero outside service-account mode
	begun  time.Time
	done   chan struct{}
	cancel context.CancelFunc

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
	now := time.Now()
	if a := r.cache.get(q, id.key, now); a != nil {
		r.refreshAhead(ctx, a, q, id, now)
		return outcome{answer: a, cache: CacheHit}
	}
	if err := r.backingOff(q, id); err != nil {
		return outcome{err: err}
	}
	var t turn
	for {
		if err := ctx.Err(); err != nil {
			return outcome{err: err} // nobody would wait for the exec
		}
		if a := r.join(ctx, q, id, &t); a != nil {
			if t.waits == 0 {
				return outcome{answer: a, cache: CacheHit}
			}
			return outcome{answer: a, cache: CacheCoalesced}
		}
		f, err := r.wait(ctx, q, &t)
		switch {
		case err != nil:
			return outcome{err: err}
		case f != nil && (t.began || f.settles(q, id)):
			return f.outcome(t.began && f == t.flight)
		}
		t.waits++
	}
}

// turn is what one lookup waits for, and has waited for.
type turn struct {
	flight *flight
	began  bool          // for this lookup
	most   time.Duration // to wait for it; 0 means until it ends

	waits int     // that are over and did not serve
	aside *flight // of another host, that took too long; its answer is welcome all the same
}

// settles reports whether the end of f is also that of another lookup.
func (f *flight) settles(q question, id *identity) bool {
	switch same := f.q.name == q.name; {
	case same && f.pod == id.pod:
		return true
	case f.err != nil:
		return false
	case same:
		return f.answer.cached()
	}
	return f.answer.serves(q)
}

func (f *flight) outcome(began bool) outcome {
	o := outcome{answer: f.answer, duration: f.duration, err: f.err, cache: CacheCoalesced}
	if began {
		o.cache = CacheMiss
	}
	return o
}

// join finds the flight to wait for, or begins one. If an answer got into the
// cache in the meantime, that is returned instead.
func (r *runner) join(ctx context.Context, q question, id *identity, t *turn) *answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	// A flight stores its answer before it leaves the map, so looking here
	// once more leaves no gap between the cache and the flights.
	a := r.cache.get(q, id.key, time.Now())
	if a != nil && (t.waits == 0 || a.serves(q)) {
		return a
	}
	keys := r.expect(q, id, t)
	f := r.find(keys)
	if f != nil {
		if t.most = r.patience(f, q); t.most >= 0 {
			t.flight, t.began = f, false
			f.waiters++
			return nil
		}
		t.aside = f
	}
	t.flight, t.began, t.most = r.begin(ctx, keys, q, id), true, 0
	return nil
}

// patience is how long q may wait for f: 0 without end, less than 0 not at all.
func (r *runner) patience(f *flight, q question) time.Duration {
	if f.q.registry == q.registry {
		return 0
	}
	most := patienceUnknown
	if r.scope != "" {
		most = patienceGlobal
	}
	if left := most - time.Since(f.begun); left > 0 {
		return left
	}
	return -1
}

// expect returns where to look for a flight that may serve q.
func (r *runner) expect(q question, id *identity, t *turn) []flightKey {
	keys := r.seats(q, id)
	if t.waits == 0 {
		return keys
	}
	if keys = keys[:1]; t.waits > 1 || slices.Contains(t.flight.keys, keys[0]) {
		return []flightKey{ownKey(q, id)}
	}
	return keys
}

// seats is what a flight for q is found under by all whom its answer can be
// expected to serve, the nearest first.
func (r *runner) seats(q question, id *identity) []flightKey {
	of := func(scope plugin.CacheKeyType) flightKey {
		return flightKey{cacheKey: cacheKey{scope, q.base(scope), id.key}}
	}
	switch r.scope {
	case scopeNone:
		return []flightKey{ownKey(q, id)}
	case "", plugin.CacheGlobal:
		return []flightKey{of(plugin.CacheRegistry), {cacheKey: cacheKey{identity: id.key}}}
	}
	return []flightKey{of(r.scope)}
}

// ownKey is of a flight for one image of one pod.
func ownKey(q question, id *identity) flightKey {
	return flightKey{cacheKey{plugin.CacheImage, q.name, id.key}, id.pod}
}

// find returns the nearest flight; r.mu is held.
func (r *runner) find(keys []flightKey) *flight {
	for _, key := range keys {
		if f := r.flights[key]; f != nil {
			return f
		}
	}
	return nil
}

// begin starts a flight, which others find under those of the keys that are
// free; r.mu is held. It has the values of the lookup's context, and ends with
// the keyring, not with the lookup.
func (r *runner) begin(ctx context.Context, keys []flightKey, q question, id *identity) *flight {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(r.host.ctx, cancel)
	f := &flight{keys: keys, q: q, pod: id.pod, begun: time.Now(), done: make(chan struct{}), cancel: cancel, waiters: 1}
	fly := func() {
		defer cancel()
		defer unhook()
		a, err := r.exec(ctx, q, id)
		if id.key == "" {
			r.noteBackoff(q, err)
		}
		r.finish(f, a, err, time.Since(f.begun))
	}
	if !r.host.background(fly) {
		f.err = ErrClosed // the host's context has ended, and ctx with it
		close(f.done)
		return f
	}
	for _, key := range keys {
		if r.flights[key] == nil {
			r.flights[key] = f
		}
	}
	return f
}

// finish publishes the result of a flight.
func (r *runner) finish(f *flight, a *answer, err error, d time.Duration) {
	f.answer, f.err, f.duration = a, err, d
	if a != nil && a.cached() && r.cache.put(a) {
		r.host.observe(r.host.ctx, Event{Kind: EventEvict, Provider: r.name, Image: f.q.name})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(f)
	if a != nil {
		r.scope = a.key.scope
		if !a.cached() {
			r.scope = scopeNone
		}
	}
	close(f.done)
}

// forget takes f out of the map, but not another flight that has taken its place; r.mu is held.
func (r *runner) forget(f *flight) {
	for _, key := range f.keys {
		if r.flights[key] == f {
			delete(r.flights, key)
		}
	}
}

// wait returns the flight that ended, t's or the one aside if that serves q;
// nil if t's takes too long, which is then aside. It leaves what it does not
// return.
func (r *runner) wait(ctx context.Context, q question, t *turn) (*flight, error) {
	var tooLong <-chan time.Time
	if t.most > 0 {
		tooLong = time.After(t.most)
	}
	for {
		var aside <-chan struct{}
		if t.aside != nil {
			aside = t.aside.done
		}
		select {
		case <-t.flight.done:
			return t.flight, nil
		case <-aside:
			if f := t.aside; f.err == nil && f.answer.serves(q) {
				r.leave(t.flight)
				return f, nil
			}
			t.aside = nil
		case <-tooLong:
			r.leave(t.flight)
			t.aside = t.flight
			return nil, nil
		case <-ctx.Done():
			r.leave(t.flight)
			return nil, fmt.Errorf("waiting for the plugin: %w", ctx.Err())
		}
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
