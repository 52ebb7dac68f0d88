// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"fmt"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// benchRepeats is how often tests that depend on the random order of map iteration are repeated.
const benchRepeats = 50

// newTestResponse returns a response for one image with the given lifetime.
func newTestResponse(image string, now time.Time, life time.Duration, used bool) *response {
	a := &response{key: cacheKey{scope: plugin.CacheImage, scopedName: image}, storedAt: now, expires: now.Add(life)}
	a.used.Store(used)
	return a
}

// newFullCache returns a full cache of n used entries. Entry i expires before entry i+1.
func newFullCache(n int, now time.Time) *responseCache {
	c := newResponseCache(n)
	for i := range n {
		c.put(newTestResponse(fmt.Sprint(i), now, time.Hour+time.Duration(i), true))
	}
	return c
}

func (c *responseCache) has(image string) bool {
	return c.entries[cacheKey{scope: plugin.CacheImage, scopedName: image}] != nil
}

func TestEvictionRemovesUnused(t *testing.T) {
	for range benchRepeats {
		now := time.Now()
		c := newFullCache(8, now)
		c.put(newTestResponse("5", now, 24*time.Hour, false))
		if evicted := c.put(newTestResponse("new", now, time.Minute, false)); !evicted || c.has("5") || len(c.entries) != 8 {
			t.Fatalf("evicted %t, the unused one is there %t, %d entries; want it gone, though it would end last", evicted, c.has("5"), len(c.entries))
		}
	}
}

func TestEvictionRemovesFirstToExpire(t *testing.T) {
	for range benchRepeats {
		now := time.Now()
		c := newFullCache(8, now)
		if evicted := c.put(newTestResponse("new", now, time.Minute, false)); !evicted || c.has("0") || len(c.entries) != 8 {
			t.Fatalf("evicted %t, the first to end is there %t, %d entries; want it gone", evicted, c.has("0"), len(c.entries))
		}
	}
}

// TestEvictionLooksAtFew verifies that an eviction examines only eight entries, and marks them
// as unused.
func TestEvictionLooksAtFew(t *testing.T) {
	c := newFullCache(20, time.Now())
	c.put(newTestResponse("new", time.Now(), time.Minute, false))
	used := 0
	for _, a := range c.entries {
		if a.used.Load() {
			used++
		}
	}
	if used != 12 || len(c.entries) != 20 {
		t.Errorf("%d of %d entries count as used, want 12 of 20: one eviction looks at 8", used, len(c.entries))
	}
}

func TestUsedEntryIsNotEvicted(t *testing.T) {
	for range benchRepeats {
		now := time.Now()
		c := newResponseCache(2)
		for _, image := range []string{"r.example/used", "r.example/unused"} {
			c.put(newTestResponse(image, now, time.Hour, false))
		}
		if c.getUnexpired(lookupKeyForImage(t, "r.example/used"), "", now) == nil {
			t.Fatal("it is not in the cache")
		}
		c.put(newTestResponse("r.example/new", now, time.Hour, false))
		if !c.has("r.example/used") || c.has("r.example/unused") {
			t.Fatal("the entry that was used was evicted")
		}
	}
}

// TestInvalidateOnceAMinute verifies that each key is invalidated at most once a minute, and
// that only the given generation is invalidated.
func TestInvalidateOnceAMinute(t *testing.T) {
	c, now := newResponseCache(10), time.Now()
	put := func(image string, generation uint64) {
		a := newTestResponse(image, now, time.Hour, false)
		a.generation = generation
		c.put(a)
	}
	put("a", 1)
	for _, step := range []struct {
		what       string
		generation uint64
		after      time.Duration
		want       bool
		image      string
		left       bool
	}{
		{"a generation that is not there", 2, 0, false, "a", true},
		{"the one that is", 1, 0, true, "a", false},
		{"that one again", 1, 0, false, "a", false},
		{"its successor within the minute", 3, time.Minute - 1, false, "a", true},
		{"another key within the minute", 4, time.Minute - 1, true, "b", false},
		{"its successor after a minute", 3, time.Minute, true, "a", false},
	} {
		if step.generation > 2 {
			put(step.image, step.generation)
		}
		if got := c.invalidate(step.generation, now.Add(step.after)); got != step.want || c.has(step.image) != step.left {
			t.Errorf("%s: dropped %t, still there %t; want %t, %t", step.what, got, c.has(step.image), step.want, step.left)
		}
	}
}

// TestRefusalsAreForgotten verifies that the cache does not keep the times of old
// invalidations, which would use more and more memory.
func TestRefusalsAreForgotten(t *testing.T) {
	c, now := newResponseCache(10), time.Now()
	for i, image := range []string{"earlier", "later"} {
		a := newTestResponse(image, now, time.Hour, false)
		a.generation = uint64(i + 1)
		c.put(a)
		c.invalidate(a.generation, now.Add(time.Duration(i)))
	}
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{time.Minute - 1, 2}, {time.Minute, 1}, {time.Minute + 1, 0}} {
		if c.removeExpired(now.Add(step.after)); len(c.invalidated) != step.want {
			t.Errorf("%d refusals are remembered after %v, want %d", len(c.invalidated), step.after, step.want)
		}
	}
}

func TestClearedCacheIsEmpty(t *testing.T) {
	c, now := newFullCache(8, time.Now()), time.Now()
	c.entries[cacheKey{scope: plugin.CacheImage, scopedName: "3"}].generation = 7
	if !c.invalidate(7, now) {
		t.Fatal("nothing was dropped")
	}
	if c.clear(); len(c.entries) != 0 || len(c.invalidated) != 0 {
		t.Errorf("%d entries and %d refusals, want none", len(c.entries), len(c.invalidated))
	}
}

func lookupKeyForImage(t *testing.T, image string) lookupKey {
	t.Helper()
	return must.Get(newLookupKey(Request{Image: image}))(t)
}
