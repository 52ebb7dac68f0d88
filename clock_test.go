// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"testing"
	"time"
	"unsafe"

	"github.com/regcred/regcred/plugin"
)

// withClockChange returns the time at as if the system clock had been changed by d, in whole seconds.
// The wall time changes, but the monotonic time does not.
func withClockChange(t *testing.T, at time.Time, d time.Duration) time.Time {
	t.Helper()
	set := at
	wall := (*uint64)(unsafe.Pointer(&set)) // 1 flag bit, 33 bits of seconds, 30 bits of nanoseconds
	*wall += uint64(int64(d/time.Second)) << 30
	if set.Sub(at) != 0 || set.Unix()-at.Unix() != int64(d/time.Second) {
		t.Fatalf("the layout of time.Time is not what it was: %v became %v", at, set)
	}
	return set
}

var clockChanges = map[string]time.Duration{"not set": 0, "set back": -24 * time.Hour, "set forward": 24 * time.Hour}

// TestClockAndSweep verifies that a sweep removes only expired entries, even after the clock
// was changed.
func TestClockAndSweep(t *testing.T) {
	for name, d := range clockChanges {
		t.Run(name, func(t *testing.T) {
			c, now, q := newResponseCache(10), time.Now(), lookupKeyForImage(t, "r.example/x")
			c.created = now.Add(-1) // so that the first get removes expired entries
			for base, life := range map[string]time.Duration{"short": time.Minute, "long": time.Hour} {
				c.put(&response{key: cacheKey{plugin.CacheImage, base, ""}, storedAt: now, expires: now.Add(life)})
			}
			c.getUnexpired(q, "", now)
			c.getUnexpired(q, "", withClockChange(t, now.Add(sweepInterval), d))
			if len(c.entries) != 2 {
				t.Errorf("%d entries before the time, want 2", len(c.entries))
			}
			c.getUnexpired(q, "", withClockChange(t, now.Add(sweepInterval+1), d))
			if len(c.entries) != 1 {
				t.Errorf("%d entries after a sweep, want the long one", len(c.entries))
			}
			// Expired entries are removed again after another interval.
			c.put(&response{key: cacheKey{plugin.CacheImage, "short", ""}, storedAt: now, expires: now.Add(sweepInterval + time.Minute)})
			c.getUnexpired(q, "", withClockChange(t, now.Add(2*sweepInterval+2*time.Second), d))
			if len(c.entries) != 1 {
				t.Errorf("%d entries after the second sweep, want the long one", len(c.entries))
			}
		})
	}
}

// TestClockAndExpiry verifies that changing the clock does not change an entry's lifetime.
func TestClockAndExpiry(t *testing.T) {
	for name, d := range clockChanges {
		now := time.Now()
		a := &response{storedAt: now, expires: now.Add(time.Hour)}
		if a.isExpired(withClockChange(t, now.Add(59*time.Minute), d)) || !a.isExpired(withClockChange(t, now.Add(61*time.Minute), d)) {
			t.Errorf("%s: the response does not live an hour", name)
		}
	}
}

// TestClockAndRefresh verifies that changing the clock does not change the interval between two
// refreshes.
func TestClockAndRefresh(t *testing.T) {
	for name, d := range clockChanges {
		now := time.Now()
		a := &response{storedAt: now, expires: now.Add(time.Hour)}
		if !a.tryStartRefresh(now.Add(50*time.Minute), time.Minute) {
			t.Errorf("%s: the first refresh is refused", name)
		}
		if a.tryStartRefresh(withClockChange(t, now.Add(50*time.Minute+time.Second), d), time.Minute) {
			t.Errorf("%s: a second one is begun after a second", name)
		}
		if !a.tryStartRefresh(withClockChange(t, now.Add(52*time.Minute), d), time.Minute) {
			t.Errorf("%s: none is begun any more", name)
		}
	}
}
