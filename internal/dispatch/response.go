// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dispatch

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/plugin"
)

// entryResponses holds the responses of an entry's providers for an image.
type entryResponses struct {
	image     string
	entry     *entries.Entry
	providers []config.Provider // all providers of the entry

	credentials []regcred.Credential // in order
	attempts    []regcred.Attempt
	responses   []*plugin.Response // indexed by provider; nil if there was no response
	failed      bool
}

func (r *entryResponses) addResult(res *regcred.Result, recorders map[string]*responseRecorder) {
	r.credentials, r.attempts = res.Credentials, res.Attempts
	r.responses = make([]*plugin.Response, len(r.providers))
	for _, a := range res.Attempts {
		switch {
		case a.Err != nil:
			r.failed = true
		case a.Skipped == "":
			r.responses[a.Index] = recorders[a.Provider].recordedResponse()
		}
	}
}

// mergedResponse returns the response for the kubelet, and the number of dropped credentials.
func (r *entryResponses) mergedResponse(maxStale time.Duration) (resp *plugin.Response, left int) {
	d := r.cacheDuration(maxStale)
	resp = &plugin.Response{CacheKeyType: r.cacheScope(), CacheDuration: &d}
	if resp.CacheKeyType == plugin.CacheImage {
		resp.Auth, left = orderedAuth(r.image, r.credentials)
		return resp, left
	}
	resp.Auth = map[string]plugin.AuthConfig{}
	for _, key := range r.authKeys() {
		resp.Auth[key.Raw] = key.auth
	}
	return resp, 0
}

// cacheDuration returns the shortest cache duration of all responses.
//
// kubelet: if a response has no duration, the kubelet uses the entry's
// defaultCacheDuration, which is not the provider's. So the duration is always set.
func (r *entryResponses) cacheDuration(maxStale time.Duration) time.Duration {
	shortest, kept := maxStale, false
	for i, a := range r.responses {
		if a == nil {
			continue
		}
		d := r.providers[i].DefaultCacheDuration
		if a.CacheDuration != nil {
			d = a.CacheDuration
		}
		if d == nil {
			return 0
		}
		shortest, kept = min(shortest, *d), true
	}
	if !kept || r.failed {
		return 0
	}
	return max(shortest, 0)
}

// cacheScope returns the widest scope for which the kubelet may cache the response.
func (r *entryResponses) cacheScope() plugin.CacheKeyType {
	switch {
	case r.hasKeyCollision():
		return plugin.CacheImage
	case r.allowsGlobalScope():
		return plugin.CacheGlobal
	case r.allowsRegistryScope():
		return plugin.CacheRegistry
	}
	return plugin.CacheImage
}

// allowsGlobalScope reports whether the kubelet may use the response for every image of the
// entry. The entry must have a single provider, whose patterns cover all patterns of the
// entry. They must also cover all auth keys, because the kubelet may still use the entry of
// another generation.
func (r *entryResponses) allowsGlobalScope() bool {
	if len(r.providers) != 1 || r.responses[0] == nil || r.responses[0].CacheKeyType != plugin.CacheGlobal {
		return false
	}
	own := r.providers[0].MatchImages
	return !slices.ContainsFunc(r.entry.MatchImages, func(s string) bool { return !isCovered(s, own) }) &&
		!slices.ContainsFunc(r.authKeys(), func(k authKey) bool {
			// Docker Hub's key also applies to images that it does not match.
			return k.String() == location.HubKey || !isCovered(k.String(), own)
		})
}

// isCovered reports whether one of others covers pattern.
func isCovered(pattern string, others []string) bool {
	narrow, err := location.ParsePattern(pattern)
	return err != nil || slices.ContainsFunc(others, func(s string) bool {
		wide, err := location.ParsePattern(s)
		return err == nil && wide.Covers(narrow)
	})
}

// allowsRegistryScope reports whether the kubelet may use the response for every image
// of the host. Each provider that matches any image of the host must match all of them,
// and its response must be valid for all of them.
func (r *entryResponses) allowsRegistryScope() bool {
	registry, _, _ := strings.Cut(r.image, "/")
	host, err := location.Parse(registry)
	if err != nil {
		return false
	}
	asked := false
	for i := range r.providers {
		some, every := matchesHost(r.providers[i].MatchImages, host)
		if !some {
			continue
		}
		a := r.responses[i]
		if !every || a == nil || a.CacheKeyType == plugin.CacheImage {
			return false
		}
		asked = true
	}
	return asked
}

// matchesHost reports whether patterns match at least one image of a host, and whether they
// match every image of the host.
func matchesHost(patterns []string, host location.Location) (some, every bool) {
	for _, s := range patterns {
		p, err := location.ParsePattern(s)
		if err != nil {
			continue
		}
		bare, _, _ := strings.Cut(s, "/")
		if h, err := location.ParsePattern(bare); err == nil && h.Match(host) {
			path := p.Location.Path
			some, every = true, every || path == "" || path == "/"
		}
	}
	return some, every
}

// authKey is an auth key of a response.
type authKey struct {
	location.Key
	auth plugin.AuthConfig
}

// authKeys returns the keys of all responses, except keys that the kubelet ignores
// because it cannot parse them.
func (r *entryResponses) authKeys() (all []authKey) {
	for _, a := range r.responses {
		if a == nil {
			continue
		}
		for _, k := range location.ParseKeys(slices.Collect(maps.Keys(a.Auth))) {
			all = append(all, authKey{k, a.Auth[k.Raw]})
		}
	}
	return all
}

// hasKeyCollision reports whether two keys normalize to the same text. If the keys are
// equal, a response can contain only one of them. If they differ, the kubelet uses them in
// random order.
func (r *entryResponses) hasKeyCollision() bool {
	seen := map[string]bool{}
	for _, k := range r.authKeys() {
		if seen[k.String()] {
			return true
		}
		seen[k.String()] = true
	}
	return false
}
