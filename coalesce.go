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

// Concurrent lookups that can use the same response wait for the same exec, called a flight as
// in singleflight.
//
// The scope of a response is not known until the plugin exits. So a lookup expects the scope of
// the provider's last response. If that scope was Global, or if there is no last response,
// lookups for the same host share a flight. Lookups for other hosts also wait for this flight,
// but only for a limited time (see waitLimit). Then they start a flight for their own host.
//
// The expected scope is only a hint. The response decides which of the waiting lookups can use
// it: lookups for the same image, and lookups whose image is in its scope and matches one of
// its auth keys. A failure, or a response that must not be cached, is used only for the same
// image of the same pod.
//
// A lookup that cannot use the result waits for one other flight at most. Then it starts a
// flight for its own image and pod. So a lookup waits for at most two flights of other lookups,
// and for at most two seconds for a flight of another host.
//
// A flight does not end with the lookup that started it. It is canceled when its last waiter
// leaves. Different identities never share a flight.

// Limits on how long an exec for one host may delay lookups for other hosts, counted from the
// start of the exec. The first limit is used if the provider has not returned a response yet,
// the second if the scope of its last response was Global.
const (
	maxWaitUnknownScope = 250 * time.Millisecond
	maxWaitGlobalScope  = 2 * time.Second
)

// flightKey is the key under which lookups find an exec in flight. It contains the cache key
// that the response is expected to have. If the response may serve only one pod, it also
// contains that pod. A flightKey without a scope identifies all execs of the provider for
// one identity.
type flightKey struct {
	cacheKey
	pod TokenRequest
}

// flight is one exec and its waiters.
type flight struct {
	keys    []flightKey
	key     lookupKey
	pod     TokenRequest // zero outside service-account mode
	started time.Time
	done    chan struct{}
	cancel  context.CancelFunc

	waiters   int  // guarded by runner.mu
	isRefresh bool // guarded by runner.mu; true for a background refresh, which counts as a waiter

	// These fields are set before done is closed.
	response *response
	err      error
	duration time.Duration
}

// providerOutcome is the result of one provider for one lookup.
type providerOutcome struct {
	response *response
	cache    CacheResult
	duration time.Duration
	err      error
}

// cachedResponse returns the cached response for key, or nil. In service-account mode it always
// returns nil, because the cache key also contains the identity. Unlike fetch, it does not
// allocate.
func (r *runner) cachedResponse(ctx context.Context, key lookupKey, now time.Time) *response {
	if r.tokenAttributes != nil {
		return nil
	}
	resp := r.cache.getUnexpired(key, "", now)
	if resp != nil {
		r.refreshIfDue(ctx, resp, key, "", now)
	}
	return resp
}

// fetchResponse returns a response for key from the cache, from an exec in flight or
// from a new one.
func (r *runner) fetchResponse(ctx context.Context, key lookupKey, id *identity) providerOutcome {
	now := time.Now()
	if resp := r.cache.getUnexpired(key, id.key, now); resp != nil {
		r.refreshIfDue(ctx, resp, key, id.key, now)
		return providerOutcome{response: resp, cache: CacheHit}
	}
	if err := r.backoffError(key, id); err != nil {
		return providerOutcome{err: err}
	}
	var w waiter
	for {
		if err := ctx.Err(); err != nil {
			return providerOutcome{err: err}
		}
		if resp := r.joinFlight(ctx, key, id, &w); resp != nil {
			if w.rounds == 0 {
				return providerOutcome{response: resp, cache: CacheHit}
			}
			return providerOutcome{response: resp, cache: CacheCoalesced}
		}
		f, err := r.waitForFlight(ctx, key, &w)
		switch {
		case err != nil:
			return providerOutcome{err: err}
		case f != nil && (w.startedFlight || f.canShareResult(key, id)):
			o := providerOutcome{response: f.response, duration: f.duration, err: f.err, cache: CacheCoalesced}
			if w.startedFlight && f == w.flight {
				o.cache = CacheMiss
			}
			return o
		}
		w.rounds++
	}
}

// waiter is the state of one lookup that waits for a flight.
type waiter struct {
	flight        *flight
	startedFlight bool             // this lookup started the flight
	timeout       <-chan time.Time // nil: the lookup waits until the flight is done

	rounds         int     // number of flights whose result this lookup could not use
	timedOutFlight *flight // flight of another host that took too long; its response is still used if it arrives in time and serves this lookup
}

// canShareResult reports whether a lookup that waited for f can use its result.
func (f *flight) canShareResult(key lookupKey, id *identity) bool {
	switch same := f.key.name == key.name; {
	case same && f.pod == id.pod:
		return true
	case f.err != nil:
		return false
	case same:
		return f.response.isCached()
	}
	return f.response.canServe(key)
}

// joinFlight makes w wait for a flight, and starts one if necessary. If the cache contains a usable
// response by now, join returns that response instead.
func (r *runner) joinFlight(ctx context.Context, key lookupKey, id *identity, w *waiter) *response {
	r.mu.Lock()
	defer r.mu.Unlock()
	// A flight adds its response to the cache before it is removed from inFlight. So a lookup
	// that finds no flight finds the response here.
	resp := r.cache.getUnexpired(key, id.key, time.Now())
	if resp != nil && (w.rounds == 0 || resp.canServe(key)) {
		return resp
	}
	keys := r.searchKeys(key, id, w)
	if f := r.findFlight(keys); f != nil {
		limit, limited := r.waitLimit(f, key)
		if !limited || limit > 0 {
			w.flight, w.startedFlight, w.timeout = f, false, nil
			if limited {
				w.timeout = time.After(limit)
			}
			f.waiters++
			return nil
		}
		w.timedOutFlight = f
	}
	w.flight, w.startedFlight, w.timeout = r.startFlight(ctx, keys, key, id), true, nil
	return nil
}

// waitLimit returns how long a lookup for key may still wait for f. If limited is false, there
// is no limit. If limit is 0 or less, the lookup must not wait.
func (r *runner) waitLimit(f *flight, key lookupKey) (limit time.Duration, limited bool) {
	if f.key.registry == key.registry {
		return 0, false
	}
	limit = maxWaitUnknownScope
	if r.lastScope != "" {
		limit = maxWaitGlobalScope
	}
	return limit - time.Since(f.started), true
}

// searchKeys returns the keys under which w looks for a flight. The first round uses all keys.
// The second round uses only the narrowest key, or the exclusive key if w has already waited
// for a flight with the narrowest key. Later rounds use only the exclusive key.
func (r *runner) searchKeys(key lookupKey, id *identity, w *waiter) []flightKey {
	keys := r.flightKeys(key, id)
	if w.rounds == 0 {
		return keys
	}
	if keys = keys[:1]; w.rounds > 1 || slices.Contains(w.flight.keys, keys[0]) {
		return []flightKey{exclusiveKey(key, id)}
	}
	return keys
}

// flightKeys returns the keys under which a flight for key is registered,
// narrowest scope first.
func (r *runner) flightKeys(key lookupKey, id *identity) []flightKey {
	scoped := func(scope plugin.CacheKeyType) flightKey {
		return flightKey{cacheKey: cacheKey{scope, key.scopedName(scope), id.key}}
	}
	switch r.lastScope {
	case scopeNone:
		return []flightKey{exclusiveKey(key, id)}
	case "", plugin.CacheGlobal:
		return []flightKey{scoped(plugin.CacheRegistry), {cacheKey: cacheKey{identity: id.key}}}
	}
	return []flightKey{scoped(r.lastScope)}
}

// exclusiveKey returns the key of a flight for one image of one pod.
func exclusiveKey(key lookupKey, id *identity) flightKey {
	return flightKey{cacheKey{plugin.CacheImage, key.name, id.key}, id.pod}
}

// findFlight returns the flight of the first key that has one, or nil. r.mu must be held.
func (r *runner) findFlight(keys []flightKey) *flight {
	for _, k := range keys {
		if f := r.inFlight[k]; f != nil {
			return f
		}
	}
	return nil
}

// startFlight starts a flight and registers it under the keys that have no flight yet. r.mu
// must be held. The flight uses the values of ctx, but it is not canceled with ctx. It is
// canceled when the keyring is closed.
func (r *runner) startFlight(ctx context.Context, keys []flightKey, key lookupKey, id *identity) *flight {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(r.env.ctx, cancel)
	f := &flight{keys: keys, key: key, pod: id.pod, started: time.Now(), done: make(chan struct{}), cancel: cancel, waiters: 1}
	run := func() {
		defer cancel()
		defer stop()
		resp, err := r.execPlugin(ctx, key, id)
		if id.key == "" {
			r.updateBackoff(key, err)
		}
		r.finishFlight(f, resp, err, time.Since(f.started))
	}
	if !r.env.startGoroutine(run) {
		f.err = ErrClosed // the keyring is closed, so ctx is canceled too
		close(f.done)
		return f
	}
	for _, k := range keys {
		if r.inFlight[k] == nil {
			r.inFlight[k] = f
		}
	}
	return f
}

// finishFlight caches the response, publishes the result of the flight, and wakes its waiters.
func (r *runner) finishFlight(f *flight, resp *response, err error, d time.Duration) {
	f.response, f.err, f.duration = resp, err, d
	if resp != nil && resp.isCached() && r.cache.put(resp) {
		r.env.emit(r.env.ctx, Event{Kind: EventEvict, Provider: r.name, Image: f.key.name})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unregisterFlight(f)
	if resp != nil {
		r.lastScope = resp.key.scope
		if !resp.isCached() {
			r.lastScope = scopeNone
		}
	}
	close(f.done)
}

// unregisterFlight removes f from r.inFlight. It does not remove keys that another flight uses
// by now. r.mu must be held.
func (r *runner) unregisterFlight(f *flight) {
	for _, k := range f.keys {
		if r.inFlight[k] == f {
			delete(r.inFlight, k)
		}
	}
}

// waitForFlight waits until w's flight is done and returns it. If w.timedOutFlight is done
// first and serves key, it returns w.timedOutFlight instead. If w.timeout expires first, it
// sets w.timedOutFlight to the flight and returns nil. Unless it returns w's flight, it stops
// waiting for it.
func (r *runner) waitForFlight(ctx context.Context, key lookupKey, w *waiter) (*flight, error) {
	for {
		var overtime <-chan struct{}
		if w.timedOutFlight != nil {
			overtime = w.timedOutFlight.done
		}
		select {
		case <-w.flight.done:
			return w.flight, nil
		case <-overtime:
			if f := w.timedOutFlight; f.err == nil && f.response.canServe(key) {
				r.leaveFlight(w.flight)
				return f, nil
			}
			w.timedOutFlight = nil
		case <-w.timeout:
			r.leaveFlight(w.flight)
			w.timedOutFlight = w.flight
			return nil, nil
		case <-ctx.Done():
			r.leaveFlight(w.flight)
			return nil, fmt.Errorf("waiting for the plugin: %w", ctx.Err())
		}
	}
}

func (r *runner) leaveFlight(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removeWaiter(f)
}

// removeWaiter removes one waiter from f, and cancels f if it was the last. r.mu must be held.
func (r *runner) removeWaiter(f *flight) {
	if f.waiters--; f.waiters == 0 {
		r.unregisterFlight(f) // no lookup may join a flight that is about to fail
		f.cancel()
	}
}
