// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regcred/regcred/plugin"
)

// responseCache is the in-memory cache of one provider.
type responseCache struct {
	maxEntries int

	mu          sync.RWMutex
	entries     map[cacheKey]*response
	invalidated map[cacheKey]time.Time // time of the last invalidation that removed an entry

	// nextSweep is a duration since created, in nanoseconds. Unlike a Unix time, it is not
	// affected when the system clock is set.
	created   time.Time
	nextSweep atomic.Int64
}

const (
	sweepInterval      = 15 * time.Minute // kubelet: cachePurgeInterval
	invalidateInterval = time.Minute
)

func newResponseCache(maxEntries int) *responseCache {
	return &responseCache{maxEntries: maxEntries, entries: map[cacheKey]*response{}, invalidated: map[cacheKey]time.Time{}, created: time.Now()}
}

// getUnexpired returns an unexpired response for key, or nil. It tries image scope first, then registry
// scope, then global scope.
func (c *responseCache) getUnexpired(key lookupKey, identity string, now time.Time) *response {
	if int64(now.Sub(c.created)) > c.nextSweep.Load() {
		c.removeExpired(now)
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, scope := range [...]plugin.CacheKeyType{plugin.CacheImage, plugin.CacheRegistry, plugin.CacheGlobal} {
		if resp := c.entries[cacheKey{scope, key.scopedName(scope), identity}]; resp != nil && !resp.isExpired(now) {
			resp.markUsed()
			return resp
		}
	}
	return nil
}

// put stores resp and reports whether it evicted another entry.
func (c *responseCache) put(resp *response) (evicted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, replaces := c.entries[resp.key]; !replaces && len(c.entries) >= c.maxEntries {
		c.evictOne()
		evicted = true
	}
	c.entries[resp.key] = resp
	return evicted
}

// evictOne removes one entry. It samples a few entries at random and removes the first that was
// not used since it was last sampled. If all were used, it removes the one that expires first.
// The cache must not be empty.
func (c *responseCache) evictOne() {
	const sample = 8
	var victim *response
	seen := 0
	for _, resp := range c.entries { // in random order
		if !resp.used.Swap(false) {
			victim = resp
			break
		}
		if victim == nil || resp.expires.Before(victim.expires) {
			victim = resp
		}
		if seen++; seen == sample {
			break
		}
	}
	delete(c.entries, victim.key)
}

// invalidate removes the entry with the given generation, unless an entry with the same
// key was invalidated within the last minute.
func (c *responseCache) invalidate(generation uint64, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, resp := range c.entries {
		if resp.generation != generation {
			continue
		}
		if last, ok := c.invalidated[key]; ok && now.Sub(last) < invalidateInterval {
			return false
		}
		delete(c.entries, key)
		c.invalidated[key] = now
		return true
	}
	return false
}

func (c *responseCache) removeExpired(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nextSweep.Store(int64(now.Sub(c.created) + sweepInterval))
	maps.DeleteFunc(c.entries, func(_ cacheKey, resp *response) bool { return resp.isExpired(now) })
	maps.DeleteFunc(c.invalidated, func(_ cacheKey, last time.Time) bool { return now.Sub(last) >= invalidateInterval })
}

func (c *responseCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.entries)
	clear(c.invalidated)
}
