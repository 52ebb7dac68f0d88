// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// authEntry is one credential of an answer under its normalised auth key.
type authEntry struct {
	key      match.Pattern
	username string
	password plugin.Secret
}

// compileAuth compiles auth in the order in which a keyring walks it.
func compileAuth(auth map[string]plugin.AuthConfig) []authEntry {
	if len(auth) == 0 {
		return nil
	}
	keys := match.Keys(slices.Collect(maps.Keys(auth)))
	entries := make([]authEntry, len(keys))
	for i, k := range keys {
		entries[i] = authEntry{k.Pattern, auth[k.Raw].Username, auth[k.Raw].Password}
	}
	return entries
}

// cacheKey is what an answer is cached under: its scope, what that covers of
// the image asked for, and the identity that it was given to ("" outside
// service-account mode). The kubelet joins the last two into one string with
// length prefixes (generateCacheKey); it has no bare hosts, whose own answers
// must not be taken for those of their registry.
type cacheKey struct {
	scope          plugin.CacheKeyType
	base, identity string
}

// answer is what one plugin run, pull secret or file gave, compiled. It is
// immutable but for its atomics, and shared by the lookups that it serves.
// No exported type leads to one: package fmt prints what it finds behind
// unexported fields and pointers without asking a Secret to mask itself.
type answer struct {
	entries []authEntry
	keys    []string // of entries, for Attempts
	from    *origin

	key        cacheKey // what it is cached under, if it is; its scope is that of a plugin's answer
	generation uint64   // random; tells it from what is cached under key later
	stderr     string
	stored     time.Time
	expires    time.Time // zero if not cached

	used      atomic.Bool  // since the cache last looked for something to evict
	refreshed atomic.Int64 // when a refresh ahead was last begun, as time since stored; 0 if never
}

// origin says where the credentials of an answer came from.
type origin struct {
	provider string
	source   Origin
}

func newAnswer(auth map[string]plugin.AuthConfig, from *origin) *answer {
	a := &answer{entries: compileAuth(auth), from: from}
	if len(a.entries) > 0 {
		a.keys = make([]string, len(a.entries))
		for i, e := range a.entries {
			a.keys[i] = e.key.String()
		}
	}
	return a
}

func (a *answer) cached() bool { return !a.expires.IsZero() }

func (a *answer) expired(now time.Time) bool { return now.After(a.expires) }

// touch marks a as used; it writes only when there is something to change, so
// that cores do not contend for the cache line.
func (a *answer) touch() {
	if !a.used.Load() {
		a.used.Store(true)
	}
}

// refresh reports whether to begin a refresh ahead now: none was begun within
// that time, nor is by somebody else.
func (a *answer) refresh(now time.Time, within time.Duration) bool {
	last, at := a.refreshed.Load(), int64(now.Sub(a.stored)) // by the monotonic clock, which nobody sets
	return (last == 0 || at-last >= int64(within)) && a.refreshed.CompareAndSwap(last, at)
}

// serves reports whether an answer that was given for another image may serve
// q: its scope covers q and it has a key for it.
func (a *answer) serves(q question) bool {
	if !a.cached() || a.key.base != q.base(a.key.scope) {
		return false
	}
	return slices.ContainsFunc(a.entries, func(e authEntry) bool { return e.key.Matches(q.at) })
}

func (a *answer) credential(e authEntry) Credential {
	return Credential{
		Match:       e.key.String(),
		Username:    e.username,
		Password:    e.password,
		Provider:    a.from.provider,
		Origin:      a.from.source,
		CachedUntil: a.expires,
		generation:  a.generation,
	}
}

// appendMatches appends the credentials that one keyring, made of answers, has
// for q: by key in reverse byte order, and by answer within a key. It counts
// in the attempts, which stand beside the answers, what each contributed.
func appendMatches(creds []Credential, q question, answers []*answer, attempts []Attempt) []Credential {
	from := len(creds)
	for i, a := range answers {
		if a == nil {
			continue
		}
		for _, e := range a.entries {
			if e.key.Matches(q.at) {
				creds = insertByKey(creds, from, a.credential(e))
				attempts[i].Matched++
			}
		}
	}
	if len(creds) > from || !match.OnHub(q.name) {
		return creds
	}
	return appendHub(creds, answers, attempts)
}

// appendHub appends the credentials of Docker Hub, which serve its images if
// no key matched.
func appendHub(creds []Credential, answers []*answer, attempts []Attempt) []Credential {
	for i, a := range answers {
		if a == nil {
			continue
		}
		for _, e := range a.entries {
			if e.key.String() == match.HubKey {
				creds = append(creds, a.credential(e))
				attempts[i].Matched++
			}
		}
	}
	return creds
}

// insertByKey inserts c into creds[from:], which is sorted by key in reverse,
// behind those of the same key.
func insertByKey(creds []Credential, from int, c Credential) []Credential {
	i := len(creds)
	for i > from && creds[i-1].Match < c.Match {
		i--
	}
	return slices.Insert(creds, i, c)
}

// emptyAnswerLife bounds how long an answer without credentials is kept,
// whatever its scope. The kubelet keeps it as long as any other, so that one
// empty Global answer takes the credentials from every image for hours.
const emptyAnswerLife = time.Minute

// lifetime returns how long an answer is cached; 0 or less means not at all.
func lifetime(resp *plugin.Response, def *time.Duration) time.Duration {
	d := resp.CacheDuration
	if d == nil {
		d = def
	}
	switch {
	case d == nil:
		return 0
	case len(resp.Auth) == 0:
		return min(*d, emptyAnswerLife)
	}
	return *d
}
