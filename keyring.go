// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/match"
	"github.com/regcred/regcred/plugin"
)

// ErrClosed is returned by lookups after [Keyring.Close].
var ErrClosed = errors.New("the keyring is closed")

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

	// PluginTimeout bounds one run of a plugin, one token request and one
	// read of a source; 0 means one minute, as in the kubelet.
	PluginTimeout time.Duration

	// MaxCacheEntries bounds the cache of each provider; 0 means 100,000.
	MaxCacheEntries int

	// RefreshAhead, if positive, runs a plugin in the background when a
	// cached answer is used in the last RefreshAhead of its life, or the last
	// quarter if that is shorter (less up to a tenth, so that a fleet does not
	// ask at once). Never in service-account mode.
	RefreshAhead time.Duration

	// Backoff, if positive, is the longest time for which a plugin that
	// failed for an image is not run for it again. It begins at one second,
	// doubles, and is jittered. Never in service-account mode.
	Backoff time.Duration
}

const defaultMaxCacheEntries = 100_000

func (o *Options) timeout() time.Duration {
	if o.PluginTimeout > 0 {
		return o.PluginTimeout
	}
	return plugin.DefaultTimeout
}

func (o *Options) maxCacheEntries() int {
	if o.MaxCacheEntries > 0 {
		return o.MaxCacheEntries
	}
	return defaultMaxCacheEntries
}

// Request is one question to a [Keyring]. Exactly one of Image and Registry is set.
type Request struct {
	// Image is any image reference; it is normalised as the kubelet does,
	// so "nginx:1.25" is asked as "docker.io/library/nginx".
	Image string

	// Registry is a bare host with an optional port, for callers that know no
	// more. Patterns with a path do not match it.
	Registry string

	// Pod is for whom the image is pulled; nil if for nobody in particular.
	Pod *Pod

	// PullSecrets are the pod's image pull secrets; they serve this request alone.
	PullSecrets []PullSecret

	// Token and Annotations are a service-account identity that the caller
	// already holds; answers are then cached by the token's hash.
	Token       plugin.Secret
	Annotations map[string]string
}

// Pod identifies a pod and its service account (which may be empty).
type Pod struct {
	Namespace, Name, UID string
	ServiceAccount       string
}

// name is what keyrings and plugins see of the request.
func (r *Request) name() (string, error) {
	switch {
	case r.Image != "" && r.Registry != "":
		return "", errors.New("a request names an image or a registry, not both")
	case r.Registry != "":
		return match.Registry(r.Registry)
	default:
		return match.Repository(r.Image)
	}
}

// Keyring looks up credentials. It is safe for concurrent use. Several may
// live side by side; they share nothing.
type Keyring struct {
	opts     Options
	patterns [][]string // matchImages by provider
	index    *match.Index
	runners  []*runner

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	life   sync.RWMutex // held while background work is begun, and by Close
	wg     sync.WaitGroup
}

// New makes a Keyring of a configuration, which it takes as valid: call
// [Config.Validate] first. A missing or broken executable is not an error
// here but an [Attempt] of each lookup that would run it.
func New(c *config.Config, opts Options) (*Keyring, error) {
	if opts.BinDir == "" {
		return nil, errors.New("keyring: Options.BinDir is required")
	}
	ctx, cancel := context.WithCancel(context.Background())
	k := &Keyring{opts: opts, ctx: ctx, cancel: cancel}
	for i := range c.Providers {
		p := &c.Providers[i]
		k.patterns = append(k.patterns, p.MatchImages)
		k.runners = append(k.runners, newRunner(k, p))
	}
	k.index = match.NewIndex(k.patterns)
	return k, nil
}

// Lookup returns the credentials for an image, in the kubelet's order. With
// none, and a failure, the error is a [*LookupError], and the Result with its
// Attempts is returned beside it, as it is when ctx ends first. Other errors
// mean that the request is invalid, or [ErrClosed].
func (k *Keyring) Lookup(ctx context.Context, req Request) (*Result, error) {
	if k.ctx.Err() != nil {
		return nil, ErrClosed
	}
	q, err := newQuestion(req)
	if err != nil {
		return nil, err
	}
	l := newLookup(k, q)
	l.askSecrets(req.PullSecrets)
	l.askSources(ctx)
	l.askProviders(ctx, &req)
	for i := range l.res.Attempts {
		k.report(&l.res.Attempts[i], q)
	}
	return l.res, l.verdict(ctx)
}

// report tells observer and logger what came of an attempt.
func (k *Keyring) report(a *Attempt, q question) {
	if k.opts.Observer == nil && k.opts.Logger == nil {
		return
	}
	e := Event{Provider: a.Provider, Image: q.name, Duration: a.Duration, Stage: a.Stage, Err: a.Err}
	switch {
	case a.Err != nil:
		e.Kind = EventFailure
	case a.Cache == CacheHit:
		e.Kind = EventCacheHit
	case a.Cache == CacheMiss:
		e.Kind = EventCacheMiss
	case a.Cache == CacheCoalesced:
		e.Kind = EventCoalesced
	default:
		return
	}
	k.observe(e)
}

// observe passes an event on.
func (k *Keyring) observe(e Event) {
	if k.opts.Observer != nil {
		k.opts.Observer(e)
	}
	if log := k.opts.Logger; log != nil {
		log.Debug("credential provider", "event", e.Kind, "provider", e.Provider, "image", e.Image,
			"duration", e.Duration, "stage", e.Stage, "err", e.Err)
	}
}

// Invalidate says that a registry refused c with 401. The cache entry that it
// came from is dropped if it is still there (and not a later one), at most
// once a minute, so that the next lookup runs the plugin again. Other answers
// of a registry, 403 and 404 among them, have other reasons: do not call it then.
func (k *Keyring) Invalidate(c Credential) {
	if c.generation == 0 {
		return
	}
	for _, r := range k.runners {
		if r.name == c.Provider && r.cache.invalidate(c.generation, time.Now()) {
			k.observe(Event{Kind: EventInvalidate, Provider: r.name})
		}
	}
}

// background runs f unless k is closed; Close waits for it.
func (k *Keyring) background(f func()) bool {
	k.life.RLock()
	defer k.life.RUnlock()
	if k.ctx.Err() != nil {
		return false
	}
	k.wg.Go(f)
	return true
}

// Close ends the plugins that are running, waits for them, and empties the
// cache. Lookups fail from then on. It may be called more than once.
func (k *Keyring) Close() error {
	k.life.Lock()
	k.cancel()
	k.life.Unlock()
	k.wg.Wait()
	for _, r := range k.runners {
		r.cache.clear()
	}
	return nil
}
