// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package serve

import (
	"cmp"
	"context"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/plugin"
)

// A cached response is returned without running the plugin only until it has the age of maxStale.
// Otherwise a changed password would take effect much later than without the service, because
// neither a kubelet nor a credential helper can report a rejected one. If the plugin fails, an older
// response is returned until it expires.

// maxStale returns the maximum age of a cached response.
func (s *Server) maxStale(now *loadResult) time.Duration {
	return cmp.Or(s.MaxStale, now.snapshot.maxStale, generation.DefaultMaxStaleness)
}

// notBefore returns the minimum storage time of a response.
func (s *Server) notBefore(now *loadResult) time.Time {
	return time.Now().Add(-max(s.maxStale(now), freshFor))
}

// lookupFresh is [regcred.Keyring.Lookup] with the maximum age.
func (s *Server) lookupFresh(ctx context.Context, now *loadResult, req regcred.Request) (*regcred.Result, error) {
	if oldest := s.notBefore(now); oldest.After(req.NotBefore) {
		req.NotBefore = oldest
	}
	res, err := now.keyring.Lookup(ctx, req)
	if res == nil || err == nil && countFailed(res.Attempts) == 0 {
		return res, err
	}
	req.NotBefore = time.Time{}
	if old, oldErr := now.keyring.Lookup(cacheOnly(ctx), req); oldErr == nil && countFailed(old.Attempts) == 0 {
		return old, nil
	}
	return res, err
}

// callFresh is [regcred.Keyring.Call] with the maximum age. The caller may cache the response for the
// rest of the maximum age.
func (s *Server) callFresh(ctx context.Context, now *loadResult, provider string, req regcred.Request) (*plugin.Response, error) {
	if oldest := s.notBefore(now); oldest.After(req.NotBefore) {
		req.NotBefore = oldest
	}
	resp, a, err := now.keyring.Call(ctx, provider, req)
	if err != nil {
		req.NotBefore = time.Time{}
		old, oldAttempt, oldErr := now.keyring.Call(cacheOnly(ctx), provider, req)
		if oldErr != nil || old == nil {
			return nil, err
		}
		resp, a = old, oldAttempt
	}
	if a.Cache == regcred.CacheHit {
		resp.CacheDuration = new(max(min(*resp.CacheDuration, s.maxStale(now)-a.Age), 0))
	}
	return resp, nil
}

// cacheOnly returns a context with which a keyring returns cached responses and runs no plugin.
func cacheOnly(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}
