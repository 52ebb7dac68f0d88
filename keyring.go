// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"log/slog"
	"time"

	"github.com/regcred/regcred/plugin"
)

// Secret is a password or token; it masks itself wherever it is printed.
type Secret = plugin.Secret

// Stage is the step at which a lookup failed; see the Stage constants here
// and in package plugin.
type Stage = plugin.Stage

// Stages of a lookup beside those of an exec.
const (
	StageServiceAccount Stage = "serviceAccount" // the service account could not be read, or its identity is too large for a cache key
	StageToken          Stage = "token"          // no token could be had for it
	StageEchoedToken    Stage = "echoedToken"    // the answer's password is the token, which only cacheType Token allows
	StageSource         Stage = "source"         // a pull secret or docker config file could not be read or parsed
	StageBackoff        Stage = "backoff"        // not run, because it failed a moment ago (Options.Backoff)
)

// Options configure a [Keyring]. BinDir is required; every other field may be
// left at its zero value.
type Options struct {
	// BinDir holds the plugins' executables. PATH is never searched.
	BinDir string

	// Sources are asked after the request's pull secrets and before the
	// plugins, each a keyring of its own. A kubelet has one, the node's
	// docker config files: see [NodeDockerConfig].
	Sources []AuthSource

	// ServiceAccounts serves providers with tokenAttributes. While it is nil
	// such a provider fails for pods that have a service account, unless the
	// request brings the token along.
	ServiceAccounts ServiceAccounts

	// InProcess are providers that are called in place of the executable of
	// that name, for programs that link a provider in. They get the same
	// deadline, cache and checks.
	InProcess map[string]plugin.Provider

	// Observer, if not nil, is called for every exec, cache and failure
	// event, from several goroutines. It must not block.
	Observer func(Event)

	// Logger gets Debug events; nil discards them.
	Logger *slog.Logger

	// Environ is the environment that plugins inherit, as "key=value"; nil
	// means that of this process. Dir is their working directory; "" means
	// that of this process.
	Environ []string
	Dir     string

	// PluginTimeout bounds one run of a plugin; 0 means one minute, as in the kubelet.
	PluginTimeout time.Duration

	// MaxCacheEntries bounds the cache of each provider; 0 means 100,000.
	MaxCacheEntries int

	// RefreshAhead, if positive, runs a plugin in the background when a
	// cached answer is used in the last RefreshAhead of its life (less up to a
	// tenth, so that a fleet does not ask at once). Never in service-account mode.
	RefreshAhead time.Duration

	// Backoff, if positive, is the longest time for which a plugin that
	// fails is not run again. It begins at one second, doubles, and is
	// jittered. Never in service-account mode.
	Backoff time.Duration
}

// Request is one question to a [Keyring]. Exactly one of Image and Registry is set.
type Request struct {
	// Image is any image reference; it is normalised as the kubelet does,
	// so "nginx:1.25" is asked as "docker.io/library/nginx".
	Image string

	// Registry is a bare host with an optional port. Patterns with a path do
	// not match it.
	Registry string

	// Pod is for whom the image is pulled; nil if for nobody in particular.
	Pod *Pod

	// PullSecrets are the pod's image pull secrets; they serve this request alone.
	PullSecrets []PullSecret

	// Token and Annotations are a service-account identity that the caller
	// already holds; answers are then cached by the token's hash.
	Token       Secret
	Annotations map[string]string
}

// Pod identifies a pod and its service account (which may be empty).
type Pod struct {
	Namespace, Name, UID string
	ServiceAccount       string
}

// PullSecret is a Kubernetes secret of type kubernetes.io/dockerconfigjson or
// kubernetes.io/dockercfg; others are ignored, as in the kubelet.
type PullSecret struct {
	Namespace, Name, UID string
	Type                 string
	Data                 map[string][]byte
}

// Result is what a lookup found.
type Result struct {
	// Credentials in the order in which a kubelet would try them.
	Credentials []Credential
	// Attempts says what each pull secret, source and matching provider did,
	// in that order; those that succeed without credentials included.
	Attempts []Attempt
}

// Credential is one user name and password, and where it came from.
type Credential struct {
	Match       string // the auth key that matched, normalised
	Username    string
	Password    Secret
	Provider    string    // name of the provider; "" if it came from another source
	Source      Source    // where it came from
	CachedUntil time.Time // end of the cache entry (not of the credential); zero if not cached

	entry *cacheEntry // what Invalidate drops
}

// SourceKind names one of the three keyrings of a pull.
type SourceKind string

const (
	SourcePullSecret SourceKind = "pullSecret"
	SourceNode       SourceKind = "node"
	SourceProvider   SourceKind = "provider"
)

// Source says where a credential came from (KEP-2535 calls it coordinates).
type Source struct {
	Kind           SourceKind
	PullSecret     *ObjectRef // for SourcePullSecret
	ServiceAccount *ObjectRef // for SourceProvider in service-account mode
	File           string     // for SourceNode
}

// ObjectRef identifies a Kubernetes object.
type ObjectRef struct{ Namespace, Name, UID string }

// CacheResult says how an attempt used the cache.
type CacheResult string

const (
	CacheNone      CacheResult = ""          // not looked at, e.g. because the provider was skipped
	CacheHit       CacheResult = "hit"       // answered from the cache
	CacheMiss      CacheResult = "miss"      // the plugin was run
	CacheCoalesced CacheResult = "coalesced" // a run for somebody else was waited for, and served
)

// Attempt is what one pull secret, source or matching provider did for a lookup.
type Attempt struct {
	Kind     SourceKind
	Provider string // the provider's name, or that of the source
	Index    int    // of the provider in Config.Providers; -1 for other sources
	Pattern  string // the first entry of matchImages that matched

	// Skipped says why a matching provider was not asked at all, as the
	// kubelet silently does: no service account, or a required annotation missing.
	Skipped string

	Cache       CacheResult
	CacheKey    plugin.CacheKeyType // what the answer is good for
	Age         time.Duration       // of a cached answer
	CachedUntil time.Time           // end of the cache entry; zero if not cached

	Duration time.Duration // of the exec, or of reading the source
	Keys     []string      // auth keys of the answer, normalised, in lookup order
	Matched  int           // how many credentials it contributed
	Stderr   string        // of the plugin, scrubbed; also of a successful run

	Stage Stage // where it failed; "" if it did not
	Err   error // why
}

// LookupError means that no credential was found and at least one source or
// provider failed: whether the image needs one is not known. It must never be
// turned into an anonymous pull.
type LookupError struct {
	Image  string
	Failed []Attempt
}

// EventKind says what an [Event] reports.
type EventKind string

const (
	EventExec       EventKind = "exec" // a plugin ran; Duration and, if it failed, Stage and Err are set
	EventCacheHit   EventKind = "cacheHit"
	EventCacheMiss  EventKind = "cacheMiss"
	EventCoalesced  EventKind = "coalesced"  // a lookup was served by somebody else's exec
	EventInvalidate EventKind = "invalidate" // a cached answer was dropped because it was refused
	EventEvict      EventKind = "evict"      // a cached answer was dropped for want of room
	EventFailure    EventKind = "failure"    // an attempt failed, at whatever stage
	EventToken      EventKind = "token"      // a service-account token was requested
)

// Event is what an Observer receives. It holds no secret.
type Event struct {
	Kind     EventKind
	Provider string
	Image    string // the repository that was looked up
	Duration time.Duration
	Stage    Stage
	Err      error
}

// Keyring looks up credentials. It is safe for concurrent use. Several may
// live side by side; they share nothing.
type Keyring struct{}

// New makes a Keyring of a configuration, which it takes as valid: call
// [Config.Validate] first. A missing or broken executable is not an error
// here but an [Attempt] of each lookup that would run it.
func New(c *Config, opts Options) (*Keyring, error) { return nil, errTODO }

// Lookup returns the credentials for an image, in the kubelet's order. With
// none, and a failure, the error is a [*LookupError], and the Result with its
// Attempts is returned beside it. Other errors mean that the request is
// invalid, that ctx ended or that k is closed.
func (k *Keyring) Lookup(ctx context.Context, req Request) (*Result, error) { return nil, errTODO }

// Invalidate says that a registry refused c with 401. The cache entry it came
// from is dropped, if it is still there, and at most once a minute.
func (k *Keyring) Invalidate(c Credential) {}

// Close ends running plugins and empties the cache.
func (k *Keyring) Close() error { return nil }

type cacheEntry struct{}

func (e *LookupError) Error() string { return "" }

// AuthSource is a keyring beside the plugins. Implementations must be safe
// for concurrent use.
type AuthSource interface {
	// Name says what it is, for Attempts, e.g. "node docker config".
	Name() string
	// Auths returns credentials by auth key, for the repository (or registry host) looked up.
	Auths(ctx context.Context, repository string) ([]AuthSet, error)
}

// AuthSet is the credentials of one place.
type AuthSet struct {
	Source Source
	Auths  map[string]plugin.AuthConfig
}

// NodePaths are the directories in which a kubelet looks for docker config
// files, in this order. Empty ones are left out.
type NodePaths struct {
	RootDir string // the kubelet's --root-dir, e.g. /var/lib/kubelet
	WorkDir string // its working directory
	Home    string // its $HOME
}

// NodeDockerConfig returns the keyring of a node's docker config files:
// config.json, else .dockercfg, from the first place that has a valid one.
// They are read again after five minutes.
func NodeDockerConfig(p NodePaths) AuthSource { return nil }

// ServiceAccounts gives a [Keyring] access to service accounts (KEP-4412).
// Implementations must be safe for concurrent use.
type ServiceAccounts interface {
	GetServiceAccount(ctx context.Context, namespace, name string) (*ServiceAccount, error)
	// RequestToken returns a token for the audience, bound to the pod.
	RequestToken(ctx context.Context, req TokenRequest) (Secret, error)
}

// ServiceAccount is what a keyring needs to know of one.
type ServiceAccount struct {
	Namespace, Name, UID string
	Annotations          map[string]string
}

// TokenRequest asks for a token of a service account, bound to a pod.
type TokenRequest struct {
	Namespace, ServiceAccount, ServiceAccountUID string
	PodName, PodUID                              string
	Audience                                     string
}
