// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"time"
)

// refreshAhead asks the plugin in the background when a, which has just been
// used, comes to its end. It is off unless Options.RefreshAhead is set.
func (r *runner) refreshAhead(ctx context.Context, a *answer, q question, id *identity, now time.Time) {
	ahead := r.host.opts.RefreshAhead
	if ahead <= 0 || id.key != "" {
		return
	}
	// An answer that lives no longer than ahead would be refreshed by every use.
	ahead = min(ahead, a.expires.Sub(a.stored)/4)
	if a.expires.Sub(now) > jittered(ahead, 10) || !a.refresh(now, ahead/10+time.Second) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if keys := r.seats(q, id); r.find(keys) == nil && !r.retired {
		r.begin(ctx, keys, q, id).ahead = true
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
