// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/regcred/regcred/plugin"
)

// Result is the result of a lookup. Its JSON form has no passwords.
type Result struct {
	// Credentials are in the order in which a kubelet would try them: each once,
	// until the registry accepts one. If all are rejected, the pull fails.
	// Without credentials the pull is anonymous.
	Credentials []Credential `json:"credentials"`

	// Attempts are the outcomes of each pull secret, source and matching
	// provider, in that order.
	Attempts []Attempt `json:"attempts"`
}

// Credential is a user name and password with its origin.
type Credential struct {
	Match       string        `json:"match"` // the normalised auth key that matched
	Username    string        `json:"username"`
	Password    plugin.Secret `json:"-"`
	Provider    string        `json:"provider,omitempty"` // "" if it came from another source
	Origin      Origin        `json:"origin"`
	CachedUntil time.Time     `json:"cachedUntil,omitzero"` // expiry of the cache entry, not of the credential; zero if not cached

	generation uint64 // of the cache entry, for Invalidate; 0 if not cached
}

// OriginKind is one of the three keyrings of a pull.
type OriginKind string

// The keyrings of a pull, in the order in which they are used.
const (
	FromPullSecret OriginKind = "pullSecret"
	FromNode       OriginKind = "node" // docker config files, or another of Options.Sources
	FromProvider   OriginKind = "provider"
)

// Origin is where a credential came from (KEP-2535 calls it coordinates). The
// objects that it points to are shared and must not be modified.
type Origin struct {
	Kind           OriginKind `json:"kind"`
	PullSecret     *ObjectRef `json:"pullSecret,omitempty"`     // for FromPullSecret
	ServiceAccount *ObjectRef `json:"serviceAccount,omitempty"` // for FromProvider in service-account mode
	File           string     `json:"file,omitempty"`           // for FromNode
}

// ObjectRef identifies a Kubernetes object.
type ObjectRef struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// CacheResult is how an [Attempt] used the cache.
type CacheResult string

const (
	CacheNone      CacheResult = ""          // not used, for example because the provider was skipped
	CacheHit       CacheResult = "hit"       // the response was cached
	CacheMiss      CacheResult = "miss"      // the plugin was run
	CacheCoalesced CacheResult = "coalesced" // the lookup used the response to another lookup's exec
)

// Attempt is the outcome of one pull secret, source or matching provider.
type Attempt struct {
	Kind     OriginKind `json:"kind"`
	Provider string     `json:"provider"`          // name of the provider or source
	Index    int        `json:"index"`             // in Config.Providers; -1 for other sources
	Pattern  string     `json:"pattern,omitempty"` // the first entry of matchImages that matched

	// Skipped is why a matching provider was not called: the pod has no service
	// account, a required annotation is missing, or the lookup is for a registry
	// ([SkippedPath]).
	Skipped string `json:"skipped,omitempty"`

	// Identity is the service account of a provider in service-account mode; nil
	// in other modes, and without a service account.
	Identity *Identity `json:"identity,omitempty"`

	Cache       CacheResult         `json:"cache,omitempty"`
	CacheKey    plugin.CacheKeyType `json:"cacheKey,omitempty"`   // scope of the response
	Age         time.Duration       `json:"-"`                    // of a cached response; JSON: ageSeconds
	CachedUntil time.Time           `json:"cachedUntil,omitzero"` // expiry of the cache entry; zero if not cached
	Duration    time.Duration       `json:"-"`                    // of the exec or of reading the source; JSON: durationSeconds

	Keys    []string `json:"keys,omitempty"`   // normalised auth keys of the response, in lookup order; shared, must not be modified
	Matched int      `json:"matched"`          // number of credentials in Result.Credentials
	Stderr  string   `json:"stderr,omitempty"` // the plugin's standard error without secrets, also after success

	Stage plugin.Stage `json:"stage,omitempty"` // where it failed; "" if it did not fail
	Err   error        `json:"-"`               // why it failed; JSON: error
}

// MarshalJSON encodes Err as text, and Age and Duration in seconds.
func (a Attempt) MarshalJSON() ([]byte, error) {
	type fields Attempt
	x := struct {
		fields
		AgeSeconds      float64 `json:"ageSeconds,omitempty"`
		DurationSeconds float64 `json:"durationSeconds,omitempty"`
		Error           string  `json:"error,omitempty"`
	}{fields: fields(a), AgeSeconds: a.Age.Seconds(), DurationSeconds: a.Duration.Seconds()}
	if a.Err != nil {
		x.Error = a.Err.Error()
	}
	return json.Marshal(x)
}

// Identity is the service account for which a provider with tokenAttributes is
// called (KEP-4412). It contains no secrets.
type Identity struct {
	ServiceAccount ObjectRef `json:"serviceAccount"`        // UID is "" if it was not read; empty for a Request.Token without a Pod
	Audience       string    `json:"audience"`              // the provider's serviceAccountTokenAudience
	Annotations    []string  `json:"annotations,omitempty"` // keys of the annotations passed to the plugin, sorted
	Absent         []string  `json:"absent,omitempty"`      // optional keys that the service account lacks
	Missing        string    `json:"missing,omitempty"`     // the required key that it lacks; the provider was skipped
	Token          TokenUse  `json:"token,omitempty"`
}

// TokenUse is the origin of the service-account token of an [Attempt].
type TokenUse string

const (
	TokenNone      TokenUse = ""          // no token was needed, for example because the response was cached
	TokenGiven     TokenUse = "given"     // Request.Token
	TokenRequested TokenUse = "requested" // Options.ServiceAccounts
)

// SkippedPath is the [Attempt].Skipped of a provider whose pattern has a path,
// in a registry lookup.
const SkippedPath = "the request specifies only a registry, but the provider's pattern has a path: specify an image instead"

func (a *Attempt) fail(err error) {
	a.Stage, a.Err = errorStage(err), err
}

// LookupError means that no credential was found and at least one source or
// provider failed, so the image may still need a credential. Do not pull
// anonymously after it.
type LookupError struct {
	Image  string    // the normalised repository or registry
	Failed []Attempt // the attempts with an Err
}

// Error contains the error of each failed attempt.
func (e *LookupError) Error() string {
	causes := make([]string, len(e.Failed))
	for i, a := range e.Failed {
		causes[i] = a.Err.Error()
	}
	return "no credentials for " + e.Image + ": " + strings.Join(causes, "; ")
}

// Unwrap returns the error of each failed attempt.
func (e *LookupError) Unwrap() []error {
	errs := make([]error, len(e.Failed))
	for i, a := range e.Failed {
		errs[i] = a.Err
	}
	return errs
}
