// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/regcred/regcred/plugin"
)

// startsRefresh reports whether a lookup that uses the response a starts a refresh, if a expires
// after the time left.
func (r *runner) startsRefresh(t *testing.T, a *response, left time.Duration, id *identity) bool {
	before := a.lastRefresh.Load()
	r.refreshIfDue(t.Context(), a, lookupKeyForImage(t, "r.example/x"), id.key, a.expires.Add(-left))
	return a.lastRefresh.Load() != before
}

// TestRefreshTime verifies when the use of a response starts a refresh: in the last part of the
// response's lifetime. A refresh does not start if the option is disabled or the response is
// for an identity.
func TestRefreshTime(t *testing.T) {
	const minute = time.Minute
	for _, tt := range []struct {
		option, life, left time.Duration
		id                 identity
		want               bool
	}{
		{10 * minute, 60 * minute, 10*minute + 1, identity{}, false},
		{10 * minute, 60 * minute, 9 * minute, identity{}, true},
		{10 * minute, 60 * minute, 0, identity{}, true},
		{10 * minute, 20 * minute, 5*minute + 1, identity{}, false}, // the limit is a quarter of the lifetime
		{10 * minute, 20 * minute, 4*minute + minute/2, identity{}, true},
		{8, minute, 9, identity{}, false}, // 8 ns is too short for jitter
		{8, minute, 8, identity{}, true},
		{1, minute, 1, identity{}, true},
		{0, minute, 0, identity{}, false},
		{-minute, minute, 0, identity{}, false},
		{10 * minute, 60 * minute, 0, identity{key: "alice"}, false},
	} {
		r := newTestRunner(t, &recordingProvider{}, Options{RefreshAhead: tt.option}, nil)
		r.retired = true // so that no exec starts
		if got := r.startsRefresh(t, newTestResponse("x", time.Now(), tt.life, true), tt.left, &tt.id); got != tt.want {
			t.Errorf("RefreshAhead %v, %v of %v left, identity %q: %t, want %t", tt.option, tt.left, tt.life, tt.id.key, got, tt.want)
		}
	}
}

// TestRefreshIsJittered verifies that up to a tenth of the time is subtracted at random.
func TestRefreshIsJittered(t *testing.T) {
	r := newTestRunner(t, &recordingProvider{}, Options{RefreshAhead: 90}, nil)
	r.retired = true // so that no exec starts
	often := map[time.Duration]int{}
	for range 500 {
		for _, left := range []time.Duration{81, 82, 90, 91} {
			if r.startsRefresh(t, newTestResponse("x", time.Now(), time.Hour, true), left, &identity{}) {
				often[left]++
			}
		}
	}
	if often[81] != 500 || often[82] == 500 || often[90] == 0 || often[91] != 0 {
		t.Errorf("refreshed, by remaining time: %v of 500; want all at 81, not all at 82, some at 90, none at 91", often)
	}
}

// TestNextRefresh verifies that after a failed refresh, the next refresh starts no earlier than
// a tenth of RefreshAhead and a second later.
func TestNextRefresh(t *testing.T) {
	r, a := newTestRunner(t, &recordingProvider{}, Options{RefreshAhead: 10 * time.Minute}, nil), newTestResponse("x", time.Now(), time.Hour, true)
	r.retired = true // so that no exec starts
	const left, next = 8 * time.Minute, time.Minute + time.Second
	for _, step := range []struct {
		left time.Duration
		want bool
	}{{left, true}, {left - next + 1, false}, {left - next, true}, {left - 2*next + 1, false}, {left - 2*next, true}} {
		if got := r.startsRefresh(t, a, step.left, &identity{}); got != step.want {
			t.Errorf("%v left: %t, want %t", step.left, got, step.want)
		}
	}
}

// TestOneRefreshAtATime verifies that no refresh starts while another is in flight, or after
// the provider was removed.
func TestOneRefreshAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &recordingProvider{answer: newPluginResponder(plugin.CacheRegistry, time.Hour, "")}
		r := newTestRunner(t, s, Options{RefreshAhead: 10 * time.Minute}, nil)
		noIdentity := &identity{origin: r.origin}
		use := func() {
			r.startsRefresh(t, newTestResponse("x", time.Now(), time.Hour, true), 0, noIdentity)
			synctest.Wait()
		}
		use()
		use()
		if s.execs() != 1 {
			t.Errorf("%d execs, want 1", s.execs())
		}
		time.Sleep(2 * time.Second)
		use()
		if s.execs() != 2 {
			t.Errorf("%d execs after the first was over, want 2", s.execs())
		}
		time.Sleep(2 * time.Second)
		r.cancelRefreshes()
		use()
		if s.execs() != 2 {
			t.Errorf("%d execs, want 2: none for a provider that was dropped", s.execs())
		}
	})
}

// TestRemovedProviderServesItsLookups verifies that a lookup that waits for a refresh gets the
// response, even if Reload has removed the provider in the meantime.
func TestRemovedProviderServesItsLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &recordingProvider{answer: newPluginResponder(plugin.CacheRegistry, time.Hour, "")}
		r := newTestRunner(t, s, Options{RefreshAhead: 10 * time.Minute}, nil)
		noIdentity := &identity{origin: r.origin}
		r.startsRefresh(t, newTestResponse("x", time.Now(), time.Hour, true), 0, noIdentity)
		var got providerOutcome
		done := make(chan struct{})
		go func() {
			defer close(done)
			got = r.fetchResponse(t.Context(), lookupKeyForImage(t, "r.example/y"), noIdentity)
		}()
		synctest.Wait()
		r.cancelRefreshes()
		r.cancelRefreshes()
		<-done
		if got.err != nil || got.cache != CacheCoalesced || s.execs() != 1 || s.contextErrs[0] != nil {
			t.Errorf("%v, %q, %d execs that ended with %v; want the response that was begun ahead", got.err, got.cache, s.execs(), s.contextErrs)
		}
	})
}
