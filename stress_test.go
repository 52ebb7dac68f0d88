// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// maxRunTime is the maximum duration of a run of the storm plugin.
const maxRunTime = time.Second

// randomProvider is a plugin with random responses, failures and durations. The user name in a response
// describes the request for which the credential was issued.
type randomProvider struct {
	mu      sync.Mutex
	rnd     *rand.Rand
	running int
}

func (s *randomProvider) randomInt(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rnd.IntN(n)
}

func (s *randomProvider) addActive(delta int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running += delta
}

func (s *randomProvider) GetCredentials(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
	s.addActive(1)
	defer s.addActive(-1)
	select {
	case <-time.After(time.Duration(1+s.randomInt(1000)) * maxRunTime / 1000):
	case <-ctx.Done():
		time.Sleep(maxRunTime / 10) // as long as a plugin may take to exit
		return nil, ctx.Err()
	}
	if s.randomInt(5) == 0 {
		return nil, fmt.Errorf("failed for <%s> of <%s>", req.Image, podUIDOf(req.ServiceAccountToken))
	}
	registry, _, _ := strings.Cut(req.Image, "/")
	resp := &plugin.Response{
		CacheKeyType:  []plugin.CacheKeyType{plugin.CacheImage, plugin.CacheRegistry, plugin.CacheGlobal}[s.randomInt(3)],
		CacheDuration: new([]time.Duration{-time.Hour, 0, maxRunTime / 2, time.Hour}[s.randomInt(4)]),
		Auth:          map[string]plugin.AuthConfig{},
	}
	to := issuedFor{image: req.Image, scope: resp.CacheKeyType, cached: *resp.CacheDuration > 0, account: req.ServiceAccountAnnotations["example.com/role"]}
	to.pod = podUIDOf(req.ServiceAccountToken)
	for range s.randomInt(3) {
		key := []string{registry, req.Image, "*.example", "other.example"}[s.randomInt(4)]
		resp.Auth[key] = plugin.AuthConfig{Username: to.String(), Password: plugin.NewSecret(canary.PasswordSecret)}
	}
	return resp, nil
}

// issuedFor describes the request and the response with which a credential was issued.
type issuedFor struct {
	image   string
	scope   plugin.CacheKeyType
	cached  bool
	account string // name of the service account
	pod     string
}

func (g issuedFor) String() string {
	return fmt.Sprintf("%s %s %t %q %q", g.image, g.scope, g.cached, g.account, g.pod)
}

// checkMayUse returns an error if req must not get the credential c, which was issued for g. c may
// come from a cache entry that was valid at begin.
func (g issuedFor) checkMayUse(c Credential, req Request, perPod bool, begin time.Time) error {
	asked := req.Image + req.Registry
	registry, _, _ := strings.Cut(asked, "/")
	gaveTo, _, _ := strings.Cut(g.image, "/")
	if key, err := match.Parse(c.Match); err != nil || !key.Match(asked) {
		return fmt.Errorf("key %q does not match", c.Match)
	}
	if req.Pod != nil && (g.account != req.Pod.ServiceAccount || (perPod || !g.cached) && g.pod != req.Pod.UID) {
		return errors.New("it was given to another identity")
	}
	if g.cached == c.CachedUntil.IsZero() || g.cached && c.CachedUntil.Before(begin) {
		return fmt.Errorf("kept until %v", c.CachedUntil)
	}
	switch {
	case g.image == asked:
		return nil
	case !g.cached:
		return errors.New("it must not be cached")
	case g.scope == plugin.CacheGlobal || g.scope == plugin.CacheRegistry && gaveTo == registry:
		return nil
	}
	return errors.New("its scope does not cover this")
}

func TestCoalesceStorm(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 6
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runStressTest(t, rand.New(rand.NewPCG(seed, seed))) })
		})
	}
}

// runStressTest sends random lookups to a storm plugin. It verifies for each credential that the
// lookup may use it. synctest checks that no goroutine is left.
func runStressTest(t *testing.T, rnd *rand.Rand) {
	s := &randomProvider{rnd: rand.New(rand.NewPCG(rnd.Uint64(), 0))}
	opts := Options{BinDir: "none", InProcess: map[string]plugin.Provider{"p": s}, ServiceAccounts: &staticAccounts{}, MaxCacheEntries: 1 + rnd.IntN(20)}
	var attributes *config.TokenAttributes
	switch rnd.IntN(4) {
	case 0:
		attributes = testTokenAttributes(config.CachePerServiceAccount)
	case 1:
		attributes = testTokenAttributes(config.CachePerToken)
	case 2:
		opts.RefreshAhead, opts.Backoff = maxRunTime/4, 2*maxRunTime
	}
	k := must.Get(New(oneProviderConfig(attributes), opts))(t)
	k.compiled.Load().runners[0].provider = s // call s directly, so that Close waits until s returns
	closes := rnd.IntN(3) == 0
	var wg sync.WaitGroup
	for i := range 150 {
		req, begin, patience := randomRequest(rnd, attributes != nil, i), time.Duration(rnd.Int64N(int64(6*maxRunTime))), time.Duration(0)
		if rnd.IntN(3) == 0 {
			patience = time.Duration(rnd.Int64N(int64(maxRunTime)))
		}
		wg.Go(func() {
			time.Sleep(begin)
			lookUpOnce(t, k, s, req, patience, closes)
		})
	}
	r := k.compiled.Load().runners[0]
	if closes {
		time.Sleep(4 * maxRunTime)
		k.Close()
		if s.running != 0 || len(r.cache.entries) != 0 {
			t.Errorf("%d runs and %d answers are left after Close", s.running, len(r.cache.entries))
		}
	}
	wg.Wait()
	time.Sleep(maxRunTime / 10)
	if opts.RefreshAhead > 0 {
		time.Sleep(maxRunTime) // wait for refreshes, because they have no waiters
	}
	synctest.Wait()
	if s.running != 0 || len(r.inFlight) != 0 {
		t.Errorf("%d runs and %d flights are left though no caller waits", s.running, len(r.inFlight))
	}
	k.Close()
}

// TestCoalesceFlightThatWasLeft verifies that a lookup does not join an exec that is being
// canceled. It also verifies that the end of that exec does not unregister the next exec.
func TestCoalesceFlightThatWasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &recordingProvider{answer: newPluginResponder(plugin.CacheRegistry, time.Hour, "")}
		k := newRecordingKeyring(t, s, nil, nil)
		defer k.Close()
		k.compiled.Load().runners[0].provider = plugin.ProviderFunc(func(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
			resp, err := s.GetCredentials(ctx, req)
			if err != nil {
				time.Sleep(time.Second / 4) // as long as a plugin may take to exit
			}
			return resp, err
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if _, err := k.Lookup(ctx, Request{Image: "r.example/a"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%v, want a timeout", err)
		}
		var wg sync.WaitGroup
		for _, image := range []string{"r.example/a", "r.example/b"} {
			wg.Go(func() {
				if _, err := k.Lookup(t.Context(), Request{Image: image}); err != nil {
					t.Errorf("%s: %v", image, err)
				}
			})
			time.Sleep(time.Second / 2) // the canceled exec has ended when the lookup for b starts
		}
		wg.Wait()
		if s.execs() != 2 {
			t.Errorf("%d execs, want 2: one that was left, and one for both", s.execs())
		}
	})
}

func randomRequest(rnd *rand.Rand, pods bool, i int) (req Request) {
	registry := fmt.Sprintf("r%d.example", rnd.IntN(3))
	switch rnd.IntN(6) {
	case 0:
		req.Registry = registry
	default:
		req.Image = fmt.Sprintf("%s/app-%d", registry, rnd.IntN(4))
	}
	if pods {
		req.Pod = podRequest("", []string{"alice", "bob"}[rnd.IntN(2)], i%10).Pod
	}
	return req
}

// lookUpOnce does one lookup and cancels it after the duration patience. 0 means no
// cancelation.
func lookUpOnce(t *testing.T, k *Keyring, s *randomProvider, req Request, patience time.Duration, closes bool) {
	ctx, begin := context.Background(), time.Now()
	if patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	res, err := k.Lookup(ctx, req)
	asked := req.Image + req.Registry
	took := time.Since(begin)
	if patience > 0 && took > patience || took > 3*maxRunTime {
		t.Errorf("%s: took %v with a patience of %v", asked, took, patience)
	}
	if res == nil {
		if !closes || !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", asked, err)
		}
		return
	}
	for _, c := range res.Credentials {
		var g issuedFor
		must.Get(fmt.Sscanf(c.Username, "%s %s %t %q %q", &g.image, &g.scope, &g.cached, &g.account, &g.pod))(t)
		perPod := k.compiled.Load().runners[0].tokenAttributes != nil && k.compiled.Load().runners[0].tokenAttributes.CacheType == config.CachePerToken
		if err := g.checkMayUse(c, req, perPod, begin); err != nil {
			t.Errorf("%s for %+v got a credential of %v: %v", asked, req.Pod, g, err)
		}
	}
	uid := ""
	if req.Pod != nil {
		uid = req.Pod.UID
	}
	for _, a := range res.Attempts {
		switch {
		case a.Err == nil, strings.Contains(a.Err.Error(), "failed for <"+asked+"> of <"+uid+">"):
		case ctx.Err() != nil && errors.Is(a.Err, ctx.Err()):
		case closes && (errors.Is(a.Err, ErrClosed) || errors.Is(a.Err, context.Canceled)):
		default:
			t.Errorf("%s: somebody else's failure: %v", asked, a.Err)
		}
	}
	if len(res.Credentials) > 0 && s.randomInt(10) == 0 {
		k.Invalidate(res.Credentials[0])
	}
}
