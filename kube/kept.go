// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube

import (
	"sync"
	"time"
)

// sweepEvery is how often entries that have ended are looked for.
const sweepEvery = time.Minute

// kept is a map of bounded size whose entries end. It is safe for concurrent use.
type kept[K comparable, V any] struct {
	most int

	mu      sync.Mutex
	entries map[K]ending[V]
	swept   time.Time
}

type ending[V any] struct {
	value V
	until time.Time
}

func newKept[K comparable, V any](most int) *kept[K, V] {
	return &kept[K, V]{most: most, entries: map[K]ending[V]{}}
}

// get returns an entry that has not ended.
func (k *kept[K, V]) get(key K, now time.Time) (value V, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, ok := k.entries[key]
	if !ok || !now.Before(e.until) {
		return value, false
	}
	return e.value, true
}

// put adds an entry, and drops those that have ended or, for want of room,
// the one that ends first.
func (k *kept[K, V]) put(key K, value V, until, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Sub(k.swept) >= sweepEvery {
		k.sweep(now)
	}
	if _, known := k.entries[key]; !known && len(k.entries) >= k.most {
		k.evict()
	}
	k.entries[key] = ending[V]{value, until}
}

func (k *kept[K, V]) drop(key K) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.entries, key)
}

func (k *kept[K, V]) sweep(now time.Time) {
	k.swept = now
	for key, e := range k.entries {
		if !now.Before(e.until) {
			delete(k.entries, key)
		}
	}
}

func (k *kept[K, V]) evict() {
	var first K
	var until time.Time
	for key, e := range k.entries {
		if until.IsZero() || e.until.Before(until) {
			first, until = key, e.until
		}
	}
	delete(k.entries, first)
}
