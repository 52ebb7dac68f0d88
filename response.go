// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/plugin"
)

// authEntry is one credential in a response, with its normalized auth key.
type authEntry struct {
	key      location.Pattern
	username string
	password plugin.Secret
}

// compileAuth returns the credentials in auth with normalized keys, in the order in which a
// keyring tries the keys.
func compileAuth(auth map[string]plugin.AuthConfig) []authEntry {
	if len(auth) == 0 {
		return nil
	}
	keys := location.ParseKeys(slices.Collect(maps.Keys(auth)))
	entries := make([]authEntry, len(keys))
	for i, k := range keys {
		entries[i] = authEntry{k.Pattern, auth[k.Raw].Username, auth[k.Raw].Password}
	}
	return entries
}

// cacheKey identifies a cached response. It consists of the scope, the part of the image name
// that the scope covers, and the identity for which the plugin was called. identity is ""
// outside service-account mode. The kubelet joins the last two into one string with length
// prefixes (generateCacheKey).
type cacheKey struct {
	scope                plugin.CacheKeyType
	scopedName, identity string
}

// response is the compiled result of one plugin run, pull secret or file. Concurrent lookups
// share it, so only its atomic fields may change.
//
// No exported type may hold a pointer to a response. Package fmt would print the passwords,
// because it does not call methods on unexported fields.
type response struct {
	entries []authEntry
	keys    []string                     // keys of the entries, for Attempts
	auth    map[string]plugin.AuthConfig // as returned, for [Keyring.Call]
	origin  *responseOrigin

	key        cacheKey // set for plugin responses; the scope is set even if the response is not cached
	generation uint64   // random; differs from later responses with the same key
	stderr     string
	duration   *time.Duration // the plugin's cacheDuration; nil if it set none
	storedAt   time.Time
	expires    time.Time // zero if not cached

	used        atomic.Bool  // used since evict last sampled this response
	lastRefresh atomic.Int64 // start of the last background refresh, relative to stored; 0 if never
}

// responseOrigin describes where the credentials of a response came from.
type responseOrigin struct {
	provider string
	source   Origin
}

func newResponse(auth map[string]plugin.AuthConfig, from *responseOrigin) *response {
	resp := &response{entries: compileAuth(auth), auth: auth, origin: from}
	for _, e := range resp.entries {
		resp.keys = append(resp.keys, e.key.String())
	}
	return resp
}

func (r *response) isCached() bool { return !r.expires.IsZero() }

func (r *response) isExpired(now time.Time) bool { return now.After(r.expires) }

// markUsed sets used. It writes only if the value changes, so that CPU cores do not contend for
// the cache line.
func (r *response) markUsed() {
	if !r.used.Load() {
		r.used.Store(true)
	}
}

// tryStartRefresh reports whether the caller may start a background refresh. It returns
// false if one was started within the interval or if another goroutine is starting one.
func (r *response) tryStartRefresh(now time.Time, interval time.Duration) bool {
	last, at := r.lastRefresh.Load(), int64(now.Sub(r.storedAt)) // monotonic, so changes to the clock have no effect
	return (last == 0 || at-last >= int64(interval)) && r.lastRefresh.CompareAndSwap(last, at)
}

// canServe reports whether a response for another image may be used for key: its scope
// must cover key, and one of its auth keys must match.
func (r *response) canServe(key lookupKey) bool {
	if !r.isCached() || r.key.scopedName != key.scopedName(r.key.scope) {
		return false
	}
	return slices.ContainsFunc(r.entries, func(e authEntry) bool { return e.key.Match(key.location) })
}

func (r *response) credential(e authEntry) Credential {
	return Credential{
		Match:       e.key.String(),
		Username:    e.username,
		Password:    e.password,
		Provider:    r.origin.provider,
		Origin:      r.origin.source,
		CachedUntil: r.expires,
		generation:  r.generation,
	}
}

// appendMatchingCredentials appends the credentials for key that a kubelet keyring with these responses
// would return. They are sorted by auth key in reverse byte order. Credentials with the same
// key keep the order of the responses. attempts[i].Matched counts the credentials from
// responses[i].
func appendMatchingCredentials(creds []Credential, key lookupKey, responses []*response, attempts []Attempt) []Credential {
	from := len(creds)
	creds = appendEntries(creds, responses, attempts, func(e authEntry) bool { return e.key.Match(key.location) })
	if len(creds) == from && location.UsesHubKey(key.name) {
		// For a Docker Hub image that no auth key matches, the kubelet uses the key of Docker
		// Hub.
		creds = appendEntries(creds, responses, attempts, func(e authEntry) bool { return e.key.String() == location.HubKey })
	}
	return creds
}

func appendEntries(creds []Credential, responses []*response, attempts []Attempt, selected func(authEntry) bool) []Credential {
	from := len(creds)
	for i, resp := range responses {
		if resp == nil {
			continue
		}
		for _, e := range resp.entries {
			if selected(e) {
				creds = insertByKey(creds, from, resp.credential(e))
				attempts[i].Matched++
			}
		}
	}
	return creds
}

// insertByKey inserts c into creds[from:], which is sorted by key in descending order.
// c is inserted after credentials with the same key.
func insertByKey(creds []Credential, from int, c Credential) []Credential {
	i := len(creds)
	for i > from && creds[i-1].Match < c.Match {
		i--
	}
	return slices.Insert(creds, i, c)
}

// maxEmptyTTL limits how long a response without credentials is cached. The kubelet has
// no such limit, so a single empty Global response can hide the credentials for every
// image for hours.
const maxEmptyTTL = time.Minute

// cacheDuration returns how long to cache resp; 0 or less means not at all.
func cacheDuration(resp *plugin.Response, defaultDuration *time.Duration) time.Duration {
	d := resp.CacheDuration
	if d == nil {
		d = defaultDuration
	}
	switch {
	case d == nil:
		return 0
	case len(resp.Auth) == 0:
		return min(*d, maxEmptyTTL)
	}
	return *d
}
