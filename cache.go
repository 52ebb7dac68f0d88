// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/regcred/regcred/plugin"
)

// answerCache keeps the answers of one provider, in memory alone.
type answerCache struct {
	max int // entries

	mu      sync.RWMutex
	entries map[cacheKey]*answer
	refused map[cacheKey]time.Time // when an entry was last dropped by invalidate

	// When to sweep, as time since begun: so, and not in Unix time, a clock
	// that is set changes nothing.
	begun     time.Time
	nextSweep atomic.Int64
}

const (
	sweepInterval      = 15 * time.Minute // as the kubelet's cachePurgeInterval
	invalidateInterval = time.Minute
)

func newAnswerCache(most int) *answerCache {
	return &answerCache{max: most, entries: map[cacheKey]*answer{}, refused: map[cacheKey]time.Time{}, begun: time.Now()}
}

// get returns a live answer for q: its own, its registry's, or the global one.
func (c *answerCache) get(q question, identity string, now time.Time) *answer {
	if int64(now.Sub(c.begun)) > c.nextSweep.Load() {
		c.sweep(now)
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, scope := range [...]plugin.CacheKeyType{plugin.CacheImage, plugin.CacheRegistry, plugin.CacheGlobal} {
		if a := c.entries[cacheKey{scope, q.base(scope), identity}]; a != nil && !a.expired(now) {
			a.touch()
			return a
		}
	}
	return nil
}

// put stores a and reports whether another entry was evicted for it.
func (c *answerCache) put(a *answer) (evicted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, replaces := c.entries[a.key]; !replaces && len(c.entries) >= c.max {
		c.evict()
		evicted = true
	}
	c.entries[a.key] = a
	return evicted
}

// evict drops one entry: of a few at random (maps iterate from a random
// place), one that nobody used since it was last looked at, else the one that
// ends first. There is one: no cache has room for none.
func (c *answerCache) evict() {
	const sample = 8
	var victim *answer
	seen := 0
	for _, a := range c.entries {
		if !a.used.Swap(false) {
			victim = a
			break
		}
		if victim == nil || a.expires.Before(victim.expires) {
			victim = a
		}
		if seen++; seen == sample {
			break
		}
	}
	delete(c.entries, victim.key)
}

// invalidate drops the entry of that generation if it is still there, and if
// no entry of its key was dropped within the last minute.
func (c *answerCache) invalidate(generation uint64, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, a := range c.entries {
		if a.generation != generation {
			continue
		}
		if last, ok := c.refused[key]; ok && now.Sub(last) < invalidateInterval {
			return false
		}
		delete(c.entries, key)
		c.refused[key] = now
		return true
	}
	return false
}

// sweep drops what has expired.
func (c *answerCache) sweep(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nextSweep.Store(int64(now.Sub(c.begun) + sweepInterval))
	for key, a := range c.entries {
		if a.expired(now) {
			delete(c.entries, key)
		}
	}
	for key, last := range c.refused {
		if now.Sub(last) >= invalidateInterval {
			delete(c.refused, key)
		}
	}
}

// clear drops everything.
func (c *answerCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.entries)
	clear(c.refused)
}
