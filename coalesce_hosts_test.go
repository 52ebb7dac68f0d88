// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// slowProvider is an in-process provider whose calls take a different time for each host.
type slowProvider struct {
	delays map[string]time.Duration // by host; "" for all others
	answer func(context.Context, *plugin.Request) (*plugin.Response, error)

	mu            sync.Mutex
	execs         map[string]int // by host
	canceledExecs map[string]int // number of canceled execs, by host
}

func (p *slowProvider) GetCredentials(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
	host, _, _ := strings.Cut(req.Image, "/")
	p.count(&p.execs, host)
	d, ok := p.delays[host]
	if !ok {
		d = p.delays[""]
	}
	select {
	case <-time.After(d):
		return p.answer(ctx, req)
	case <-ctx.Done():
		p.count(&p.canceledExecs, host)
		return nil, ctx.Err()
	}
}

func (p *slowProvider) count(m *map[string]int, host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if *m == nil {
		*m = map[string]int{}
	}
	(*m)[host]++
}

func (p *slowProvider) newKeyring(t *testing.T) *Keyring {
	t.Helper()
	return must.Get(New(oneProviderConfig(nil), Options{InProcess: map[string]plugin.Provider{"p": p}}))(t)
}

// setLastScope runs the provider once with the given scope, so that the runner expects this scope from
// now on. Then it removes the response from the cache.
func (p *slowProvider) setLastScope(t *testing.T, k *Keyring, scope plugin.CacheKeyType) {
	t.Helper()
	answer := p.answer
	p.answer = newPluginResponder(scope, time.Second, "*.example")
	must.Get(k.Lookup(t.Context(), Request{Image: "teacher.example/x"}))(t)
	time.Sleep(time.Minute)
	p.answer, p.execs = answer, nil
}

// timedResult is the result of a lookup and its duration.
type timedResult struct {
	res  *Result
	err  error
	took time.Duration
}

// lookupConcurrently looks up images concurrently. The first lookup starts slightly earlier.
func lookupConcurrently(k *Keyring, images ...string) []timedResult {
	all := make([]timedResult, len(images))
	var wg sync.WaitGroup
	for i, image := range images {
		wg.Go(func() {
			begin := time.Now()
			res, err := k.Lookup(context.Background(), Request{Image: image})
			all[i] = timedResult{res, err, time.Since(begin)}
		})
		if i == 0 {
			synctest.Wait()
		}
	}
	wg.Wait()
	return all
}

// TestAnotherHostIsWaitedForBriefly verifies that an exec that hangs for one host delays
// lookups for other hosts only briefly: if the scope is unknown, and if the last response was
// Global. A lookup does not wait for an exec that started long ago.
func TestAnotherHostIsWaitedForBriefly(t *testing.T) {
	for _, tt := range []struct {
		last  plugin.CacheKeyType
		later time.Duration // start of the second lookup, after the first
		took  time.Duration
	}{
		{"", 0, 250 * time.Millisecond},
		{"", 200 * time.Millisecond, 50 * time.Millisecond},
		{"", maxWaitUnknownScope - 1, 1},
		{"", maxWaitUnknownScope, 0},
		{"", time.Second, 0},
		{plugin.CacheGlobal, 0, 2 * time.Second},
		{plugin.CacheGlobal, maxWaitGlobalScope - 1, 1},
		{plugin.CacheGlobal, maxWaitGlobalScope, 0},
		{plugin.CacheGlobal, 10 * time.Second, 0},
		{plugin.CacheRegistry, 0, 0},
		{plugin.CacheImage, 0, 0},
	} {
		t.Run(fmt.Sprintf("last %q, %v later", tt.last, tt.later), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &slowProvider{delays: map[string]time.Duration{"dead.example": time.Hour, "": time.Second / 10}, answer: newPluginResponder(plugin.CacheRegistry, time.Hour, "")}
				k := p.newKeyring(t)
				defer k.Close()
				if tt.last != "" {
					p.setLastScope(t, k, tt.last)
				}
				var wg sync.WaitGroup
				wg.Go(func() {
					if _, err := k.Lookup(context.Background(), Request{Image: "dead.example/x"}); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("dead.example: %v, want its deadline", err)
					}
				})
				synctest.Wait()
				time.Sleep(tt.later)
				got := lookupConcurrently(k, "live.example/x", "live.example/y")
				for i, want := range []time.Duration{tt.took + time.Second/10, tt.took + time.Second/10} {
					if got[i].err != nil || len(got[i].res.Credentials) != 1 || got[i].took != want {
						t.Errorf("live.example: %v after %v, want a credential after %v", got[i].err, got[i].took, want)
					}
				}
				if want := map[bool]int{false: 1, true: 2}[tt.last == plugin.CacheImage]; p.execs["live.example"] != want {
					t.Errorf("%d execs for live.example, want %d", p.execs["live.example"], want)
				}
				wg.Wait()
			})
		})
	}
}

// TestLeaderOfAnotherHostLeaves verifies that an exec is canceled when the lookup that started
// it has left, although a lookup for another host has waited for it.
func TestLeaderOfAnotherHostLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &slowProvider{delays: map[string]time.Duration{"": time.Minute / 2}, answer: newPluginResponder(plugin.CacheRegistry, time.Hour, "")}
		k := p.newKeyring(t)
		defer k.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			res, err := k.Lookup(ctx, Request{Image: "dead.example/x"})
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(res.Attempts[0].Err.Error(), "waiting for the plugin: context deadline exceeded") {
				t.Errorf("the leader: %v, attempts %+v; want its deadline and the reason for waiting", err, res.Attempts)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if _, err := k.Lookup(t.Context(), Request{Image: "live.example/x"}); err != nil {
				t.Errorf("live.example: %v", err)
			}
		})
		time.Sleep(time.Second)
		synctest.Wait()
		if p.canceledExecs["dead.example"] != 1 {
			t.Error("the exec of dead.example goes on, though no caller waits for it")
		}
		wg.Wait()
	})
}

// TestBurstOverManyHosts verifies that many concurrent lookups cause only one exec per host,
// even with a slow plugin.
func TestBurstOverManyHosts(t *testing.T) {
	var all []string
	for i := range 200 {
		all = append(all, fmt.Sprintf("r%d.example/app-%d", i%20, i))
	}
	synctest.Test(t, func(t *testing.T) {
		p := &slowProvider{delays: map[string]time.Duration{"": 30 * time.Second}, answer: newPluginResponder(plugin.CacheRegistry, time.Hour, "")}
		k := p.newKeyring(t)
		defer k.Close()
		for i, got := range lookupConcurrently(k, all...) {
			want := 30*time.Second + maxWaitUnknownScope
			if i%20 == 0 {
				want = 30 * time.Second // the first image starts the first exec, and shares it with the images on the same host
			}
			if got.err != nil || len(got.res.Credentials) != 1 || got.took != want {
				t.Errorf("%s: %v after %v, want a credential after %v", all[i], got.err, got.took, want)
			}
		}
		for host, n := range p.execs {
			if n != 1 {
				t.Errorf("%s: %d execs, want 1", host, n)
			}
		}
		if len(p.execs) != 20 {
			t.Errorf("execs for %d hosts, want 20", len(p.execs))
		}
	})
}

// TestGlobalResponseComesLate verifies that a Global response also serves lookups that no
// longer wait for it, and that their own execs are canceled.
func TestGlobalResponseComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &slowProvider{delays: map[string]time.Duration{"": 3 * time.Second}, answer: newPluginResponder(plugin.CacheGlobal, time.Hour, "*.example")}
		k := p.newKeyring(t)
		defer k.Close()
		p.setLastScope(t, k, plugin.CacheGlobal)
		p.canceledExecs = nil
		for _, got := range lookupConcurrently(k, "a.example/x", "b.example/x", "b.example/y", "c.example/x") {
			if got.err != nil || len(got.res.Credentials) != 1 || got.took != 3*time.Second {
				t.Errorf("%v after %v, want a credential after 3s", got.err, got.took)
			}
		}
		synctest.Wait()
		if p.execs["a.example"] != 1 || p.execs["b.example"] != 1 || p.canceledExecs["a.example"] != 0 || p.canceledExecs["b.example"] != 1 || p.canceledExecs["c.example"] != 1 {
			t.Errorf("execs %v, ended %v; want one for each host, and b's and c's cancelled", p.execs, p.canceledExecs)
		}
		time.Sleep(time.Hour + 1)
		p.execs, p.canceledExecs = nil, nil
		var wg sync.WaitGroup
		wg.Go(func() { k.Lookup(t.Context(), Request{Image: "a.example/x"}) })
		time.Sleep(2500 * time.Millisecond)
		// This lookup starts too late to wait for a's exec, but before a's response.
		if got := lookupConcurrently(k, "b.example/x")[0]; got.err != nil || got.took != time.Second/2 || p.execs["b.example"] != 1 {
			t.Errorf("%v after %v, %d execs; want the response for a after 0.5s", got.err, got.took, p.execs["b.example"])
		}
		wg.Wait()
		if _, err := k.Lookup(t.Context(), Request{Image: "d.example/x"}); err != nil || p.execs["d.example"] != 0 {
			t.Errorf("later: %v, %d execs; want it from the cache", err, p.execs["d.example"])
		}
		if n := len(k.compiled.Load().runners[0].inFlight); n != 0 {
			t.Errorf("%d flights are left", n)
		}
	})
}

// TestFailureOfAnotherHost verifies that lookups for one host share an exec after they have
// waited for an exec that failed for another host.
func TestFailureOfAnotherHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &slowProvider{delays: map[string]time.Duration{"dead.example": time.Second / 5, "": time.Second}}
		p.answer = func(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
			if strings.HasPrefix(req.Image, "dead.") {
				return nil, errors.New("no such registry")
			}
			return newPluginResponder(plugin.CacheRegistry, time.Hour, "")(ctx, req)
		}
		k := p.newKeyring(t)
		defer k.Close()
		got := lookupConcurrently(k, "dead.example/x", "live.example/1", "live.example/2", "live.example/3")
		if got[0].err == nil {
			t.Error("dead.example has a credential")
		}
		for _, got := range got[1:] {
			if got.err != nil || got.took != 1200*time.Millisecond {
				t.Errorf("live.example: %v after %v, want a credential after 1.2s", got.err, got.took)
			}
		}
		if p.execs["live.example"] != 1 {
			t.Errorf("%d execs for live.example, want 1", p.execs["live.example"])
		}
	})
}

// TestWaitsForAtMostTwo verifies the longest possible wait. A lookup waits briefly for another
// host, then for a failing exec of its own host, and then starts its own exec.
func TestWaitsForAtMostTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &slowProvider{delays: map[string]time.Duration{"dead.example": time.Hour, "": 10 * time.Second}}
		p.answer = func(context.Context, *plugin.Request) (*plugin.Response, error) { return nil, errors.New("broken") }
		k := p.newKeyring(t)
		defer k.Close()
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() { k.Lookup(ctx, Request{Image: "dead.example/x"}) })
		synctest.Wait()
		for i, got := range lookupConcurrently(k, "live.example/1", "live.example/2", "live.example/3", "live.example/4") {
			if got.err == nil || got.took > maxWaitUnknownScope+20*time.Second {
				t.Errorf("%d: %v after %v, want a failure after at most 20.25s", i, got.err, got.took)
			}
		}
		if p.execs["live.example"] != 4 {
			t.Errorf("%d execs, want 4: one for each image", p.execs["live.example"])
		}
		cancel()
		wg.Wait()
	})
}

// TestWaitsForAtMostTwoPods verifies the longest possible wait for pods that share a service
// account. The response to the second exec is for one image only. The test is repeated, because
// the scheduler decides which lookup starts an exec.
func TestWaitsForAtMostTwoPods(t *testing.T) {
	for range 30 {
		synctest.Test(t, func(t *testing.T) {
			p := &slowProvider{delays: map[string]time.Duration{"dead.example": time.Hour, "": 10 * time.Second}}
			p.answer = func(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
				if req.Image == "live.example/y" {
					return nil, errors.New("no such repository")
				}
				return newPluginResponder(plugin.CacheImage, time.Hour, "")(ctx, req)
			}
			k, err := New(oneProviderConfig(testTokenAttributes(config.CachePerServiceAccount)), Options{InProcess: map[string]plugin.Provider{"p": p}, ServiceAccounts: &staticAccounts{}})
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() { k.Lookup(ctx, podRequest("dead.example/x", "alice", 9)) })
			synctest.Wait()
			begin := time.Now()
			for i, image := range []string{"live.example/x", "live.example/y", "live.example/y", "live.example/y"} {
				wg.Go(func() {
					if _, err := k.Lookup(t.Context(), podRequest(image, "alice", i)); (err != nil) != (i > 0) || time.Since(begin) > maxWaitUnknownScope+20*time.Second {
						t.Errorf("%s: %v after %v, want it after at most 20.25s", image, err, time.Since(begin))
					}
				})
			}
			time.Sleep(time.Minute)
			cancel()
			wg.Wait()
		})
	}
}
