// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"strings"
	"time"

	"github.com/regcred/regcred/plugin"
)

// Result is what a lookup found.
type Result struct {
	// Credentials in the order in which a kubelet would try them: each once,
	// until one is accepted, and not anonymously after that. With none, it
	// pulls anonymously.
	Credentials []Credential

	// Attempts say what each pull secret, source and matching provider did,
	// in that order.
	Attempts []Attempt
}

// Credential is one user name and password, and where it came from.
type Credential struct {
	Match       string // the auth key that matched, normalised
	Username    string
	Password    plugin.Secret
	Provider    string    // name of the provider; "" if it came from another source
	Origin      Origin    // where it came from
	CachedUntil time.Time // end of the cache entry (not of the credential); zero if not cached

	generation uint64 // of the cache entry that Invalidate drops; 0 if not cached
}

// OriginKind names one of the three keyrings of a pull.
type OriginKind string

// The keyrings of a pull, in the order in which they are consulted.
const (
	FromPullSecret OriginKind = "pullSecret"
	FromNode       OriginKind = "node" // docker config files, or another of Options.Sources
	FromProvider   OriginKind = "provider"
)

// Origin says where a credential came from (KEP-2535 calls it coordinates).
// What it points to is shared, and not to be changed.
type Origin struct {
	Kind           OriginKind
	PullSecret     *ObjectRef // for FromPullSecret
	ServiceAccount *ObjectRef // for FromProvider in service-account mode
	File           string     // for FromNode
}

// ObjectRef identifies a Kubernetes object.
type ObjectRef struct{ Namespace, Name, UID string }

// CacheResult says how an [Attempt] used the cache.
type CacheResult string

const (
	CacheNone      CacheResult = ""          // not looked at, e.g. because the provider was skipped
	CacheHit       CacheResult = "hit"       // answered from the cache
	CacheMiss      CacheResult = "miss"      // the plugin was run
	CacheCoalesced CacheResult = "coalesced" // a run for somebody else was waited for, and served
)

// Attempt is what one pull secret, source or matching provider did for a lookup.
type Attempt struct {
	Kind     OriginKind
	Provider string // the provider's name, or that of the source
	Index    int    // of the provider in Config.Providers; -1 for other sources
	Pattern  string // the first entry of matchImages that matched

	// Skipped says why a matching provider was not asked at all, as the
	// kubelet silently does: no service account, or a required annotation is
	// missing. It is [SkippedPath] for one that matches images of the registry
	// that was asked for, and not the registry itself.
	Skipped string

	// Identity says on whose behalf a provider in service-account mode was
	// asked, or would have been; nil in other modes, and for nobody.
	Identity *Identity

	Cache       CacheResult
	CacheKey    plugin.CacheKeyType // what the answer is good for
	Age         time.Duration       // of an answer from the cache
	CachedUntil time.Time           // end of the cache entry; zero if not cached
	Duration    time.Duration       // of the exec, or of reading the source

	Keys    []string // auth keys of the answer, normalised, in lookup order; shared, not to be changed
	Matched int      // how many credentials it contributed
	Stderr  string   // what the plugin wrote to standard error, scrubbed; also of a successful run

	Stage plugin.Stage // where it failed; "" if it did not
	Err   error        // why
}

// Identity is the service account on whose behalf a provider with
// tokenAttributes is asked (KEP-4412). It holds no secret.
type Identity struct {
	ServiceAccount ObjectRef // UID is "" if it was not read; all is "" for a token from somewhere else
	Audience       string    // that the provider's configuration asks for; it is given no token for another
	Annotations    []string  // keys of the annotations that the plugin gets, sorted
	Absent         []string  // optional keys that the service account lacks
	Missing        string    // the required key that it lacks, for which the provider was skipped
	Token          TokenUse
}

// TokenUse says where an [Attempt] had its service-account token from.
type TokenUse string

const (
	TokenNone      TokenUse = ""          // it needed none, e.g. because the answer was in the cache
	TokenGiven     TokenUse = "given"     // it came with the request
	TokenRequested TokenUse = "requested" // Options.ServiceAccounts was asked for one
)

// SkippedPath is what [Attempt].Skipped says of a provider that a lookup of a bare
// registry cannot ask.
const SkippedPath = "the request specifies only a registry, but the provider's pattern has a path: specify an image instead"

// fail records why the attempt failed.
func (a *Attempt) fail(err error) {
	a.Stage, a.Err = stageOf(err), err
}

// LookupError means that no credential was found and at least one source or
// provider failed: whether the image needs one is not known. It must never be
// turned into an anonymous pull.
type LookupError struct {
	Image  string    // as it was looked up
	Failed []Attempt // those with an Err
}

// Error names every failure.
func (e *LookupError) Error() string {
	causes := make([]string, len(e.Failed))
	for i, a := range e.Failed {
		causes[i] = a.Err.Error()
	}
	return "no credentials for " + e.Image + ": " + strings.Join(causes, "; ")
}

// Unwrap returns the causes.
func (e *LookupError) Unwrap() []error {
	errs := make([]error, len(e.Failed))
	for i, a := range e.Failed {
		errs[i] = a.Err
	}
	return errs
}
