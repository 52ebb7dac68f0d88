// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// podUIDOf returns the UID of the pod to which a token of accounts is bound.
func podUIDOf(token plugin.Secret) string {
	if fields := strings.Fields(token.Reveal()); len(fields) > 2 {
		return fields[2]
	}
	return ""
}

// respondForPod returns a provider function that uses the pod's UID as the user name in its response.
func respondForPod(scope plugin.CacheKeyType, d time.Duration) func(context.Context, *plugin.Request) (*plugin.Response, error) {
	return func(_ context.Context, req *plugin.Request) (*plugin.Response, error) {
		return &plugin.Response{CacheKeyType: scope, CacheDuration: &d, Auth: map[string]plugin.AuthConfig{
			"*.example": {Username: podUIDOf(req.ServiceAccountToken), Password: plugin.NewSecret(canary.PasswordSecret)},
		}}, nil
	}
}

// TestUncachedResponseIsForOnePod verifies, for every scope, that a response that must not be
// cached serves only the pod whose token was used. A response that may be cached serves all
// pods of the service account.
func TestUncachedResponseIsForOnePod(t *testing.T) {
	for _, scope := range []plugin.CacheKeyType{plugin.CacheImage, plugin.CacheRegistry, plugin.CacheGlobal} {
		for _, d := range []time.Duration{0, -time.Hour, time.Hour} {
			t.Run(fmt.Sprint(scope, " ", d), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &recordingProvider{answer: respondForPod(scope, d)}
					k := newRecordingKeyring(t, s, testTokenAttributes(config.CachePerServiceAccount), &staticAccounts{})
					defer k.Close()
					var reqs []Request
					for i := range 10 { // each pod twice
						reqs = append(reqs, podRequest("r.example/app", "alice", i/2))
					}
					reborn := podRequest("r.example/app", "alice", 0)
					reborn.Pod.UID = "another"
					reqs = append(reqs, reborn)
					begin := time.Now()
					results, errs := lookupAll(k, reqs...)
					for i, res := range results {
						want := reqs[i].Pod.UID
						if d > 0 {
							want = reqs[0].Pod.UID
						}
						if errs[i] != nil || len(res.Credentials) != 1 || res.Credentials[0].Username != want {
							t.Errorf("pod %s got %v, %v; want that of %s", reqs[i].Pod.UID, res.Credentials, errs[i], want)
						}
					}
					want, took := 6, 2*time.Second
					if d > 0 {
						want, took = 1, time.Second
					}
					if s.execs() != want || time.Since(begin) != took {
						t.Errorf("%d execs in %v, want %d in %v", s.execs(), time.Since(begin), want, took)
					}
				})
			})
		}
	}
}

// TestPodsDoNotWaitForOthers verifies that if the last response was for one pod only, no lookup
// waits for another pod's exec.
func TestPodsDoNotWaitForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &recordingProvider{answer: respondForPod(plugin.CacheRegistry, 0)}
		k := newRecordingKeyring(t, s, testTokenAttributes(config.CachePerServiceAccount), &staticAccounts{})
		defer k.Close()
		must.Get(k.Lookup(t.Context(), podRequest("r.example/app", "alice", 0)))(t)
		begin := time.Now()
		var reqs []Request
		for i := range 10 { // each pod twice
			reqs = append(reqs, podRequest("r.example/app", "alice", i/2))
		}
		lookupAll(k, reqs...)
		if took := time.Since(begin); took != time.Second || s.execs() != 1+5 {
			t.Errorf("%d execs in %v, want 6 in 1s", s.execs(), took)
		}
	})
}

// TestFailureIsForOnePod verifies that one pod's failure is not shared, because a registry may accept one pod's token
// and reject another's.
func TestFailureIsForOnePod(t *testing.T) {
	for _, d := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			s := &recordingProvider{}
			s.answer = func(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
				if podUIDOf(req.ServiceAccountToken) == "pod-uid-0" {
					return nil, errors.New("the token is refused")
				}
				return respondForPod(plugin.CacheRegistry, d)(ctx, req)
			}
			k := newRecordingKeyring(t, s, testTokenAttributes(config.CachePerServiceAccount), &staticAccounts{})
			defer k.Close()
			var reqs []Request
			for i := range 10 {
				reqs = append(reqs, podRequest("r.example/app", "alice", i/2))
			}
			begin := time.Now()
			_, errs := lookupAll(k, reqs...)
			for i, err := range errs {
				if failed := err != nil; failed != (i < 2) {
					t.Errorf("duration %v, %s: %v", d, reqs[i].Pod.Name, err)
				}
			}
			if took := time.Since(begin); took != 2*time.Second || s.execs() != 5 {
				t.Errorf("duration %v: %d execs in %v, want 5 in 2s", d, s.execs(), took)
			}
		})
	}
}
