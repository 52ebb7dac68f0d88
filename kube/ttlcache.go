// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube

import (
	"sync"
	"time"
)

// sweepInterval is the minimum time between scans for expired entries.
const sweepInterval = time.Minute

// ttlCache is a map of limited size whose entries expire. It is safe for concurrent
// use.
type ttlCache[K comparable, V any] struct {
	maxEntries int

	mu      sync.Mutex
	entries map[K]expiringEntry[V]
	sweptAt time.Time
}

type expiringEntry[V any] struct {
	value   V
	expires time.Time
}

func newTTLCache[K comparable, V any](most int) *ttlCache[K, V] {
	return &ttlCache[K, V]{maxEntries: most, entries: map[K]expiringEntry[V]{}}
}

// getUnexpired returns an entry if it exists and has not expired.
func (k *ttlCache[K, V]) getUnexpired(key K, now time.Time) (value V, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, ok := k.entries[key]
	if !ok || !now.Before(e.expires) {
		return value, false
	}
	return e.value, true
}

// put adds an entry. If the cache is full, it evicts the entry that would expire first.
func (k *ttlCache[K, V]) put(key K, value V, until, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Sub(k.sweptAt) >= sweepInterval {
		k.removeExpired(now)
	}
	if _, known := k.entries[key]; !known && len(k.entries) >= k.maxEntries {
		k.evict()
	}
	k.entries[key] = expiringEntry[V]{value, until}
}

func (k *ttlCache[K, V]) deleteKey(key K) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.entries, key)
}

func (k *ttlCache[K, V]) removeExpired(now time.Time) {
	k.sweptAt = now
	for key, e := range k.entries {
		if !now.Before(e.expires) {
			delete(k.entries, key)
		}
	}
}

func (k *ttlCache[K, V]) evict() {
	var first K
	var until time.Time
	for key, e := range k.entries {
		if until.IsZero() || e.expires.Before(until) {
			first, until = key, e.expires
		}
	}
	delete(k.entries, first)
}
