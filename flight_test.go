// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// cancelingContext is a context that is canceled just before an exec. The lookup then leaves the flight
// that it has just started.
type cancelingContext struct {
	context.Context
	cancel context.CancelFunc
	armed  atomic.Bool
}

func (l *cancelingContext) Err() error {
	err := l.Context.Err()
	if l.armed.Load() {
		l.cancel()
	}
	return err
}

// tokenRequestRecorder records the pods for which tokens were requested.
type tokenRequestRecorder struct {
	staticAccounts
	arm      func()
	mu       sync.Mutex
	requests map[string]int
}

func (p *tokenRequestRecorder) GetServiceAccount(ctx context.Context, namespace, name string) (*ServiceAccount, error) {
	p.arm()
	return p.staticAccounts.GetServiceAccount(ctx, namespace, name)
}

func (p *tokenRequestRecorder) RequestToken(ctx context.Context, req TokenRequest) (plugin.Secret, error) {
	p.mu.Lock()
	p.requests[req.PodName+" "+req.PodUID+" "+req.ServiceAccount]++
	p.mu.Unlock()
	return p.staticAccounts.RequestToken(ctx, req)
}

// TestPodIsCopied verifies that the caller may change its Pod when Lookup has returned, even
// while a token is still being requested for that pod. The race detector also checks this.
func TestPodIsCopied(t *testing.T) {
	api := &tokenRequestRecorder{requests: map[string]int{}}
	s := plugin.ProviderFunc(newPluginResponder(plugin.CacheImage, 0, ""))
	k, err := New(oneProviderConfig(testTokenAttributes(config.CachePerServiceAccount)), Options{InProcess: map[string]plugin.Provider{"p": s}, ServiceAccounts: api})
	if err != nil {
		t.Fatal(err)
	}
	pod := podRequest("", "alice", 1).Pod
	for i := range 200 {
		*pod = Pod{Namespace: "ns", Name: "pod-1", UID: "pod-uid-1", ServiceAccount: "alice"}
		ctx := &cancelingContext{}
		ctx.Context, ctx.cancel = context.WithCancel(t.Context())
		api.arm = func() { ctx.armed.Store(true) }
		k.Lookup(ctx, Request{Image: fmt.Sprintf("r.example/app-%d", i), Pod: pod})
		*pod = Pod{Namespace: "ns", Name: "other", UID: "other", ServiceAccount: "bob"}
	}
	k.Close()
	api.mu.Lock()
	defer api.mu.Unlock()
	if len(api.requests) != 1 || api.requests["pod-1 pod-uid-1 alice"] == 0 {
		t.Errorf("tokens were requested for %v, want for pod-1 alone", api.requests)
	}
}

// traceKey is the key of a context value, such as a trace ID.
type traceKey struct{}

// traceRecorder records the trace values in the contexts that are passed to third-party code.
type traceRecorder struct {
	staticAccounts
	mu     sync.Mutex
	values map[string]string
}

func (tr *traceRecorder) record(ctx context.Context, where string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.values[where] = fmt.Sprint(ctx.Value(traceKey{}))
}

func (tr *traceRecorder) GetServiceAccount(ctx context.Context, namespace, name string) (*ServiceAccount, error) {
	tr.record(ctx, "service account")
	return tr.staticAccounts.GetServiceAccount(ctx, namespace, name)
}

func (tr *traceRecorder) RequestToken(ctx context.Context, req TokenRequest) (plugin.Secret, error) {
	tr.record(ctx, "token")
	return tr.staticAccounts.RequestToken(ctx, req)
}

func (tr *traceRecorder) GetCredentials(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
	tr.record(ctx, "provider")
	<-time.After(time.Second)
	tr.record(ctx, fmt.Sprintf("provider at its end, %v", ctx.Err()))
	return newPluginResponder(plugin.CacheRegistry, time.Hour, "")(ctx, req)
}

// TestValuesOfTheContext verifies that all code that works for a lookup gets the context values
// of the lookup's caller, even after the caller has left. The code does not get the caller's
// deadline.
func TestValuesOfTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &traceRecorder{values: map[string]string{}}
		k, err := New(oneProviderConfig(testTokenAttributes(config.CachePerServiceAccount)), Options{InProcess: map[string]plugin.Provider{"p": tr}, ServiceAccounts: tr})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), traceKey{}, "leader"), time.Second/2)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() { k.Lookup(ctx, podRequest("r.example/a", "alice", 1)) })
		synctest.Wait()
		if res, err := k.Lookup(t.Context(), podRequest("r.example/b", "alice", 2)); err != nil || len(res.Credentials) != 1 {
			t.Errorf("the waiter: %v", err)
		}
		wg.Wait()
		for _, where := range []string{"token", "provider", "provider at its end, <nil>"} {
			if tr.values[where] != "leader" {
				t.Errorf("%s saw the trace %q, want the leader's", where, tr.values[where])
			}
		}
	})
}

// TestCachedResponse verifies that cachedResponse returns a cached response, but not in
// service-account mode.
func TestCachedResponse(t *testing.T) {
	for _, tt := range []struct {
		ahead  time.Duration
		tokens *config.TokenAttributes
		want   bool
	}{{-1, nil, true}, {0, nil, true}, {1, nil, true}, {0, testTokenAttributes(config.CachePerServiceAccount), false}} {
		r, now := newTestRunner(t, &recordingProvider{}, Options{RefreshAhead: tt.ahead}, tt.tokens), time.Now()
		r.cache.put(newTestResponse("r.example/x", now, time.Hour, false))
		if got := r.cachedResponse(t.Context(), lookupKeyForImage(t, "r.example/x"), now) != nil; got != tt.want {
			t.Errorf("RefreshAhead %d, attributes %v: a response %t, want %t", tt.ahead, tt.tokens, got, tt.want)
		}
	}
}

// errHookContext is a context that calls a function when its Err method is called.
type errHookContext struct {
	context.Context
	at func()
}

func (l errHookContext) Err() error {
	l.at()
	return l.Context.Err()
}

// TestResponseBetweenCacheAndFlight verifies that a response is a cache hit if it is stored
// after fetch has read the cache for the first time, even if the response is empty.
func TestResponseBetweenCacheAndFlight(t *testing.T) {
	s := &recordingProvider{}
	r, q, now := newTestRunner(t, s, Options{}, nil), lookupKeyForImage(t, "r.example/x"), time.Now()
	a := newTestResponse(q.name, now, time.Hour, false)
	got := r.fetchResponse(errHookContext{t.Context(), func() { r.cache.put(a) }}, q, &identity{origin: r.origin})
	if got.err != nil || got.response != a || got.cache != CacheHit || s.execs() != 0 {
		t.Errorf("%v, %q, %d execs; want a hit", got.err, got.cache, s.execs())
	}
}

// TestResponseWhileWaiting verifies that a lookup uses a response that is stored while the
// lookup waits for another host's flight.
func TestResponseWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &slowProvider{delays: map[string]time.Duration{"": time.Second}, answer: newPluginResponder(plugin.CacheRegistry, time.Hour, "")}
		r, q := newTestRunner(t, p, Options{}, nil), lookupKeyForImage(t, "live.example/x")
		noIdentity := &identity{origin: r.origin}
		var wg sync.WaitGroup
		wg.Go(func() { r.fetchResponse(t.Context(), lookupKeyForImage(t, "slow.example/x"), noIdentity) })
		synctest.Wait()
		var got providerOutcome
		wg.Go(func() { got = r.fetchResponse(t.Context(), q, noIdentity) })
		synctest.Wait()
		a := newResponse(map[string]plugin.AuthConfig{"live.example": {}}, r.origin)
		a.key, a.expires = cacheKey{scope: plugin.CacheImage, scopedName: q.name}, time.Now().Add(time.Hour)
		r.cache.put(a)
		wg.Wait()
		if got.err != nil || got.response != a || got.cache != CacheCoalesced || p.execs["live.example"] != 0 {
			t.Errorf("%v, %q, %d execs; want the response, coalesced", got.err, got.cache, p.execs["live.example"])
		}
	})
}

// TestExclusiveFlightIsFoundByItsImage verifies that a lookup shares the exec for its image,
// after the scope of responses has changed from Registry to Image.
func TestExclusiveFlightIsFoundByItsImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &slowProvider{delays: map[string]time.Duration{"r.example": time.Second, "other.example": 1500 * time.Millisecond}}
		p.answer = func(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
			if req.Image == "r.example/fails" {
				return nil, errors.New("no such repository")
			}
			return newPluginResponder(plugin.CacheImage, time.Hour, "")(ctx, req)
		}
		k := p.newKeyring(t)
		defer k.Close()
		p.setLastScope(t, k, plugin.CacheRegistry)
		var wg sync.WaitGroup
		look := func(image string, want CacheResult) {
			wg.Go(func() {
				res, _ := k.Lookup(t.Context(), Request{Image: image})
				if got := res.Attempts[0].Cache; got != want {
					t.Errorf("%s: %q, want %q", image, got, want)
				}
			})
			synctest.Wait()
		}
		look("r.example/fails", CacheNone)
		look("other.example/x", CacheMiss)
		look("r.example/x", CacheMiss) // has its own flight, from 1s to 2s
		time.Sleep(1700 * time.Millisecond)
		look("r.example/x", CacheCoalesced)
		wg.Wait()
		if p.execs["r.example"] != 2 {
			t.Errorf("%d execs for r.example, want 2", p.execs["r.example"])
		}
	})
}

// afterFuncContext is a context that counts the functions registered with AfterFunc.
type afterFuncContext struct {
	context.Context
	active, total atomic.Int64
}

func (h *afterFuncContext) Value(any) any { return nil } // hides the parent's *cancelCtx, because package context would register the functions there

func (h *afterFuncContext) AfterFunc(f func()) func() bool {
	h.active.Add(1)
	h.total.Add(1)
	stop := context.AfterFunc(h.Context, f)
	return func() bool {
		h.active.Add(-1)
		return stop()
	}
}

// TestFlightsLeaveNothingBehind verifies that flights leave nothing behind: no function
// registered on the keyring's context, and no context that is not canceled. synctest.Test fails
// if a goroutine remains.
func TestFlightsLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const flights = 1000
		k := newRecordingKeyring(t, &recordingProvider{}, nil, nil)
		host := &afterFuncContext{Context: k.env.ctx}
		k.env.ctx = host
		r := k.compiled.Load().runners[0]
		var contexts []context.Context
		r.provider = plugin.ProviderFunc(func(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
			contexts = append(contexts, ctx)
			return newPluginResponder(plugin.CacheImage, 0, "")(ctx, req)
		})
		for i := range flights {
			must.Get(k.Lookup(t.Context(), Request{Image: fmt.Sprintf("r.example/%d", i)}))(t)
		}
		synctest.Wait()
		if n := host.active.Load(); n != 0 || host.total.Load() != flights || len(r.inFlight) != 0 {
			t.Errorf("%d of %d hooks and %d flights are left, want none of %d", n, host.total.Load(), len(r.inFlight), flights)
		}
		for _, ctx := range contexts {
			if ctx.Err() == nil {
				t.Fatal("the context of an exec outlives it")
			}
		}
	})
}

// TestNoFlightAfterClose verifies that a lookup that is in progress does not start an exec
// after Close.
func TestNoFlightAfterClose(t *testing.T) {
	s := &recordingProvider{}
	r := newTestRunner(t, s, Options{}, nil)
	r.env.close()
	if got := r.fetchResponse(t.Context(), lookupKeyForImage(t, "r.example/x"), &identity{origin: r.origin}); got.err != ErrClosed || s.execs() != 0 || len(r.inFlight) != 0 {
		t.Errorf("%v, %d execs, %d flights; want %v", got.err, s.execs(), len(r.inFlight), ErrClosed)
	}
}
