// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dispatch

import (
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/plugin"
)

// replies are what the providers of an entry had to say about an image.
type replies struct {
	image     string
	entry     *entries.Entry
	providers []config.Provider // all of the entry

	credentials []regcred.Credential // in the order in which they are to be tried
	attempts    []regcred.Attempt
	answers     []*plugin.Response // by provider; nil of those that did not answer
	failed      bool
}

func (r *replies) add(res *regcred.Result, recorders map[string]*recorder) {
	r.credentials, r.attempts = res.Credentials, res.Attempts
	r.answers = make([]*plugin.Response, len(r.providers))
	for _, a := range res.Attempts {
		switch {
		case a.Err != nil:
			r.failed = true
		case a.Skipped == "":
			r.answers[a.Index] = recorders[a.Provider].answered()
		}
	}
}

// response makes one answer of all. Left is how many credentials are not in it.
func (r *replies) response(maxStale time.Duration) (resp *plugin.Response, left int) {
	d := r.duration(maxStale)
	resp = &plugin.Response{CacheKeyType: r.scope(), CacheDuration: &d}
	if resp.CacheKeyType == plugin.CacheImage {
		resp.Auth, left = keep(r.image, r.credentials)
		return resp, left
	}
	resp.Auth = map[string]plugin.AuthConfig{}
	for _, key := range r.keys() {
		resp.Auth[key.Raw] = key.auth
	}
	return resp, 0
}

// duration is the shortest of all that answered: what is kept hides them all.
//
// kubelet: one that is left out means the defaultCacheDuration of the entry,
// which is not that of the provider; so it is always given.
func (r *replies) duration(maxStale time.Duration) time.Duration {
	shortest, kept := maxStale, false
	for i, a := range r.answers {
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

// scope is the widest for which a kubelet may keep the answer.
func (r *replies) scope() plugin.CacheKeyType {
	switch {
	case r.collide():
		return plugin.CacheImage
	case r.global():
		return plugin.CacheGlobal
	case r.registry():
		return plugin.CacheRegistry
	}
	return plugin.CacheImage
}

// global: a kubelet would use the answer for every image of the entry, and ask
// nobody. So the entry is for one provider and for nothing that this one does
// not match; and, since a kubelet may have the entry of another generation in
// memory, no key is for anything else either.
func (r *replies) global() bool {
	if len(r.providers) != 1 || r.answers[0] == nil || r.answers[0].CacheKeyType != plugin.CacheGlobal {
		return false
	}
	own := r.providers[0].MatchImages
	return !slices.ContainsFunc(r.entry.MatchImages, func(s string) bool { return !covered(s, own) }) &&
		!slices.ContainsFunc(r.keys(), func(k authKey) bool {
			// Docker Hub's serves images that it does not match.
			return k.String() == location.HubKey || !covered(k.String(), own)
		})
}

// covered reports whether whatever a pattern matches is matched by one of others.
func covered(pattern string, others []string) bool {
	narrow, err := location.ParsePattern(pattern)
	return err != nil || slices.ContainsFunc(others, func(s string) bool {
		wide, err := location.ParsePattern(s)
		return err == nil && wide.Covers(narrow)
	})
}

// registry: a kubelet would use the answer for every image of the host, and ask
// nobody. So whoever may have something for an image of that host has answered
// for all of them, and would be asked for all of them.
func (r *replies) registry() bool {
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
		a := r.answers[i]
		if !every || a == nil || a.CacheKeyType == plugin.CacheImage {
			return false
		}
		asked = true
	}
	return asked
}

// matchesHost reports whether a list of patterns matches some image of a host,
// and whether every one.
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

// authKey is a key of one of the answers.
type authKey struct {
	location.Key
	auth plugin.AuthConfig
}

// keys are those of all answers. What a kubelet cannot parse is not among them:
// it passes over that.
func (r *replies) keys() (all []authKey) {
	for _, a := range r.answers {
		if a == nil {
			continue
		}
		raw := make([]string, 0, len(a.Auth))
		for key := range a.Auth {
			raw = append(raw, key)
		}
		for _, k := range location.Keys(raw) {
			all = append(all, authKey{k, a.Auth[k.Raw]})
		}
	}
	return all
}

// collide reports whether two keys become one. Written as one text the answer
// could hold only one of them; written as two, a kubelet takes them in random order.
func (r *replies) collide() bool {
	seen := map[string]bool{}
	for _, k := range r.keys() {
		if seen[k.String()] {
			return true
		}
		seen[k.String()] = true
	}
	return false
}
