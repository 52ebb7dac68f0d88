// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

var errThrottled = errors.New("throttled")

// newTestRunner returns the runner of a keyring whose only provider, "p", is s.
func newTestRunner(t *testing.T, s plugin.Provider, opts Options, attributes *config.TokenAttributes) *runner {
	t.Helper()
	opts.InProcess = map[string]plugin.Provider{"p": s}
	k := must.Get(New(oneProviderConfig(attributes), opts))(t)
	t.Cleanup(func() { k.Close() })
	return k.compiled.Load().runners[0]
}

// minAndMax returns the minimum and maximum of many samples.
func minAndMax(f func() time.Duration) (least, most time.Duration) {
	least, most = math.MaxInt64, math.MinInt64
	for range 2000 {
		d := f()
		least, most = min(least, d), max(most, d)
	}
	return least, most
}

func TestSubtractJitter(t *testing.T) {
	for _, tt := range []struct{ d, part, least time.Duration }{
		{90, 10, 81}, {89, 10, 81}, {60, 4, 45}, {9, 10, 9}, {0, 4, 0},
	} {
		if least, most := minAndMax(func() time.Duration { return subtractJitter(tt.d, tt.part) }); least != tt.least || most != tt.d {
			t.Errorf("%d less up to a part of %d: between %d and %d, want %d and %d", tt.d, tt.part, least, most, tt.least, tt.d)
		}
	}
}

// TestBackoffDoubles verifies that the backoff doubles up to Options.Backoff, and that it
// starts again after a success.
func TestBackoffDoubles(t *testing.T) {
	for _, tt := range []struct {
		most time.Duration
		want []time.Duration
	}{
		{10 * time.Second, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second, 10 * time.Second}},
		{300 * time.Millisecond, []time.Duration{300 * time.Millisecond, 300 * time.Millisecond}},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, q := newTestRunner(t, &recordingProvider{}, Options{Backoff: tt.most}, nil), lookupKeyForImage(t, "r.example/x")
			for range 2 {
				for i, want := range tt.want {
					r.updateBackoff(q, errThrottled)
					b := r.backoff[q.name]
					if left := time.Until(b.until); b.wait != want || left > want || left < want*3/4 || b.err != errThrottled {
						t.Errorf("failure %d: waits %v of %v, because: %v; want up to %v", i+1, left, b.wait, b.err, want)
					}
				}
				if r.updateBackoff(q, nil); len(r.backoff) != 0 {
					t.Errorf("%d failures are remembered after a success", len(r.backoff))
				}
			}
		})
	}
}

func TestBackoffIsJittered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, q := newTestRunner(t, &recordingProvider{}, Options{Backoff: 60}, nil), lookupKeyForImage(t, "r.example/x")
		least, most := minAndMax(func() time.Duration {
			r.updateBackoff(q, errThrottled)
			return time.Until(r.backoff[q.name].until)
		})
		if least != 45 || most != 60 {
			t.Errorf("waits between %d and %d, want all but a quarter of 60 to 60", least, most)
		}
	})
}

// TestBackoffThatIsOff verifies that no failures are stored if the backoff is disabled.
func TestBackoffThatIsOff(t *testing.T) {
	for most, want := range map[time.Duration]int{-time.Hour: 0, 0: 0, 1: 1} {
		r := newTestRunner(t, &recordingProvider{}, Options{Backoff: most}, nil)
		if r.updateBackoff(lookupKeyForImage(t, "r.example/x"), errThrottled); len(r.backoff) != want {
			t.Errorf("Backoff %d: %d failures are remembered, want %d", most, len(r.backoff), want)
		}
	}
}

// TestBackoffWithoutIdentity verifies that a failure without a service account does not delay
// lookups with a service account. It also verifies that the backoff ends on time.
func TestBackoffWithoutIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, q := newTestRunner(t, &recordingProvider{}, Options{Backoff: time.Hour}, nil), lookupKeyForImage(t, "r.example/x")
		r.backoff[q.name] = backoff{until: time.Now().Add(1500 * time.Millisecond), err: errThrottled}
		if err := r.backoffError(q, &identity{key: "alice"}); err != nil {
			t.Errorf("for an identity: %v", err)
		}
		if err := r.backoffError(lookupKeyForImage(t, "r.example/y"), &identity{}); err != nil {
			t.Errorf("for another image: %v", err)
		}
		const want = "backing off for 1.5s after a failure: throttled"
		if err := r.backoffError(q, &identity{}); err == nil || err.Error() != want || errorStage(err) != StageBackoff || !errors.Is(err, errThrottled) {
			t.Errorf("got %v, want %s", err, want)
		}
		time.Sleep(1500*time.Millisecond - 1)
		if r.backoffError(q, &identity{}) == nil {
			t.Error("it ends too early")
		}
		time.Sleep(time.Nanosecond)
		if err := r.backoffError(q, &identity{}); err != nil {
			t.Errorf("at its end: %v", err)
		}
	})
}

// TestBackoffsAreBounded verifies that failures for many images use a limited amount of memory.
// If the limit is reached, only expired backoffs are evicted. If there are none, the new image
// gets no backoff.
func TestBackoffsAreBounded(t *testing.T) {
	for _, tt := range []struct {
		live, over int
		image      string
		want       int
		wait       time.Duration
	}{
		{maxBackoffs - 1, 0, "new", maxBackoffs, time.Second},
		{maxBackoffs, 0, "new", maxBackoffs, 0},
		{maxBackoffs, 0, "live-0", maxBackoffs, 14 * time.Second},
		{0, maxBackoffs - 1, "new", maxBackoffs, time.Second},
		{0, maxBackoffs - 1, "over-0", maxBackoffs - 1, 14 * time.Second},
		{0, maxBackoffs, "new", 1, time.Second},
		{10, maxBackoffs - 10, "new", 11, time.Second},
		{10, maxBackoffs - 10, "live-0", 10, 14 * time.Second},
	} {
		r, now := newTestRunner(t, &recordingProvider{}, Options{Backoff: time.Minute}, nil), time.Now()
		for i := range tt.live {
			r.backoff[fmt.Sprintf("r.example/live-%d", i)] = backoff{wait: 7 * time.Second, until: now.Add(time.Hour)}
		}
		for i := range tt.over {
			r.backoff[fmt.Sprintf("r.example/over-%d", i)] = backoff{wait: 7 * time.Second, until: now.Add(-1)}
		}
		q := lookupKeyForImage(t, "r.example/"+tt.image)
		if r.updateBackoff(q, errThrottled); len(r.backoff) != tt.want || r.backoff[q.name].wait != tt.wait {
			t.Errorf("%s after %d live and %d that are over: %d are remembered, it waits %v; want %d, %v",
				tt.image, tt.live, tt.over, len(r.backoff), r.backoff[q.name].wait, tt.want, tt.wait)
		}
	}
}
