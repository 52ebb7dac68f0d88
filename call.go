// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/regcred/regcred/plugin"
)

// Call returns the response of one provider for req.Image, from the cache if possible. It is for
// programs that share this keyring's cache and execs between other keyrings. The provider is
// called even if none of its patterns matches the image.
//
// The response is the plugin's, except that the CacheDuration of a cached response is the time
// until it expires. It is nil if the provider is not called, for example because an annotation is
// missing. Pull secrets and Options.Sources are not used. The attempt is zero if the request is
// invalid.
func (k *Keyring) Call(ctx context.Context, provider string, req Request) (*plugin.Response, Attempt, error) {
	if k.env.isClosed() {
		return nil, Attempt{}, ErrClosed
	}
	key, err := newLookupKey(req)
	if err != nil {
		return nil, Attempt{}, err
	}
	c := k.compiled.Load()
	for i, r := range c.runners {
		if r.name != provider {
			continue
		}
		l := lookup{env: k.env, compiled: c, key: key, result: newResult()}
		l.addAttempt(Attempt{Kind: FromProvider, Provider: r.name, Index: i}, nil)
		l.callProvider(ctx, 0, &req)
		k.env.emitAttempts(ctx, l.result.Attempts, key.name)
		a := &l.result.Attempts[0]
		if a.Err != nil || l.responses[0] == nil {
			return nil, *a, a.Err
		}
		return l.responses[0].pluginResponse(a.Cache == CacheHit, time.Now()), *a, nil
	}
	return nil, Attempt{}, fmt.Errorf("the configuration has no provider %q", provider)
}

// pluginResponse returns the response in the form in which the plugin returned it.
func (r *response) pluginResponse(cached bool, now time.Time) *plugin.Response {
	resp := &plugin.Response{CacheKeyType: r.key.scope, CacheDuration: r.duration, Auth: maps.Clone(r.auth)}
	if cached {
		resp.CacheDuration = new(max(r.expires.Sub(now), 0))
	}
	return resp
}
