// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"time"
)

// refreshIfDue runs the plugin in the background if resp, which has just been used,
// will expire soon. It does so only if Options.RefreshAhead is set.
func (r *runner) refreshIfDue(ctx context.Context, resp *response, key lookupKey, identityKey string, now time.Time) {
	ahead := r.env.opts.RefreshAhead
	if ahead <= 0 || identityKey != "" {
		return
	}
	// Without this limit, a response with a lifetime shorter than ahead would be refreshed at
	// each use.
	ahead = min(ahead, resp.expires.Sub(resp.storedAt)/4)
	left := resp.expires.Sub(now)
	if left > ahead || left > subtractJitter(ahead, 10) || !resp.tryStartRefresh(now, ahead/10+time.Second) {
		return
	}
	id := &identity{origin: r.origin}
	r.mu.Lock()
	defer r.mu.Unlock()
	if keys := r.flightKeys(key, id); r.findFlight(keys) == nil && !r.retired {
		r.startFlight(ctx, keys, key, id).isRefresh = true
	}
}

// cancelRefreshes cancels r's background refreshes and prevents new ones. Reload calls it when
// it removes r. Only lookups that have already started still use r.
func (r *runner) cancelRefreshes() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retired = true
	for _, f := range r.inFlight {
		if f.isRefresh {
			f.isRefresh = false
			r.removeWaiter(f)
		}
	}
}
