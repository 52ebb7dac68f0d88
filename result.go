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
	// Credentials lists the credentials in the order in which the kubelet would try
	// them. The kubelet tries each once, until the registry accepts one. If all are
	// rejected, the pull fails. If none exist, the pull is anonymous.
	Credentials []Credential `json:"credentials"`

	// Attempts contains the outcome of each pull secret, source and matching provider,
	// in that order.
	Attempts []Attempt `json:"attempts"`
}

// Credential is a user name and password with their origin.
type Credential struct {
	Match       string        `json:"match"` // the normalized auth key that matched
	Username    string        `json:"username"`
	Password    plugin.Secret `json:"-"`
	Provider    string        `json:"provider,omitempty"` // "" if it came from a pull secret or a source
	Origin      Origin        `json:"origin"`
	CachedUntil time.Time     `json:"cachedUntil,omitzero"` // expiry of the cache entry, not of the credential; zero if not cached

	generation uint64 // generation of the cache entry, for Invalidate; 0 if not cached
}

// OriginKind identifies one of the three keyrings used in a pull.
type OriginKind string

// Keyrings used in a pull, in order.
const (
	FromPullSecret OriginKind = "pullSecret"
	FromNode       OriginKind = "node" // docker config files or another source in Options.Sources
	FromProvider   OriginKind = "provider"
)

// Origin describes where a credential came from (called coordinates in KEP-2535). The
// objects that it points to are shared and must not be modified.
type Origin struct {
	Kind           OriginKind `json:"kind"`
	PullSecret     *ObjectRef `json:"pullSecret,omitempty"`     // for FromPullSecret
	ServiceAccount *ObjectRef `json:"serviceAccount,omitempty"` // set for FromProvider in service-account mode
	File           string     `json:"file,omitempty"`           // for FromNode
}

// ObjectRef identifies a Kubernetes object.
type ObjectRef struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// CacheResult describes how an [Attempt] used the cache.
type CacheResult string

const (
	CacheNone      CacheResult = ""          // not used, for example because the provider was skipped
	CacheHit       CacheResult = "hit"       // the response was cached
	CacheMiss      CacheResult = "miss"      // the plugin ran
	CacheCoalesced CacheResult = "coalesced" // the lookup used the response to another lookup's exec
)

// Attempt is the outcome of one pull secret, source or matching provider.
type Attempt struct {
	Kind     OriginKind `json:"kind"`
	Provider string     `json:"provider"`          // name of the provider or source
	Index    int        `json:"index"`             // index in Config.Providers; -1 for pull secrets and sources
	Pattern  string     `json:"pattern,omitempty"` // the first matching entry of matchImages

	// Skipped explains why a matching provider was not called: the pod has no service
	// account, a required annotation is missing, or the lookup is for a registry
	// ([SkippedPath]).
	Skipped string `json:"skipped,omitempty"`

	// Identity is the service account for a provider in service-account mode. It is nil
	// in other modes and if there is no service account.
	Identity *Identity `json:"identity,omitempty"`

	Cache       CacheResult         `json:"cache,omitempty"`
	CacheKey    plugin.CacheKeyType `json:"cacheKey,omitempty"`   // scope of the response
	Age         time.Duration       `json:"-"`                    // age of a cached response; JSON: ageSeconds
	CachedUntil time.Time           `json:"cachedUntil,omitzero"` // expiry of the cache entry; zero if not cached
	Duration    time.Duration       `json:"-"`                    // duration of the exec or of reading the source; JSON: durationSeconds

	Keys    []string `json:"keys,omitempty"`   // normalized auth keys of the response in lookup order; shared, must not be modified
	Matched int      `json:"matched"`          // number of credentials in Result.Credentials
	Stderr  string   `json:"stderr,omitempty"` // the plugin's standard error, redacted; also set after success

	Stage plugin.Stage `json:"stage,omitempty"` // where the attempt failed; "" if it succeeded
	Err   error        `json:"-"`               // why the attempt failed; JSON: error
}

// MarshalJSON encodes Err as a string, and Age and Duration in seconds.
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
	Annotations    []string  `json:"annotations,omitempty"` // sorted keys of the annotations passed to the plugin
	Absent         []string  `json:"absent,omitempty"`      // optional annotation keys that the service account lacks
	Missing        string    `json:"missing,omitempty"`     // required annotation key that is missing, so the provider was skipped
	Token          TokenUse  `json:"token,omitempty"`

	// Similar maps keys in Absent and Missing to similar annotations that the service account has.
	Similar map[string]string `json:"similar,omitempty"`
}

// TokenUse describes where the service-account token of an [Attempt] came from.
type TokenUse string

const (
	TokenNone      TokenUse = ""          // no token was needed, for example because the response was cached
	TokenGiven     TokenUse = "given"     // from Request.Token
	TokenRequested TokenUse = "requested" // from Options.ServiceAccounts
)

// SkippedPath is the value of [Attempt].Skipped if the lookup is for a registry but the
// provider's pattern has a path.
const SkippedPath = "the request specifies only a registry, but the provider's pattern has a path: specify an image instead"

func (a *Attempt) setError(err error) {
	a.Stage, a.Err = errorStage(err), err
}

// LookupError is returned if no credential was found and at least one source or
// provider failed. The image may still need a credential, so do not fall back to an
// anonymous pull.
type LookupError struct {
	Image  string    // normalized repository or registry
	Failed []Attempt // attempts that have an Err
}

// Error returns the errors of all failed attempts.
func (e *LookupError) Error() string {
	causes := make([]string, len(e.Failed))
	for i, a := range e.Failed {
		causes[i] = a.Err.Error()
	}
	return "no credentials for " + e.Image + ": " + strings.Join(causes, "; ")
}

// Unwrap returns the errors of all failed attempts.
func (e *LookupError) Unwrap() []error {
	errs := make([]error, len(e.Failed))
	for i, a := range e.Failed {
		errs[i] = a.Err
	}
	return errs
}
