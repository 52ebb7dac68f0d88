// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/await"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/executable"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/plugin"
)

// runner runs one provider. It holds the plugin, its cache and the execs in flight.
type runner struct {
	env             *keyringEnv
	name            string
	providerConfig  config.Provider         // a deep copy of the provider's configuration
	tokenAttributes *config.TokenAttributes // entry.TokenAttributes; nil outside service-account mode
	executable      executable.Attributes   // attributes when the runner was created
	provider        plugin.Provider
	position        atomic.Pointer[providerPosition] // replaced by Reload, because an unchanged provider may have moved within the file
	cache           *responseCache
	origin          *responseOrigin // origin of responses without a service account

	mu                sync.Mutex
	inFlight          map[flightKey]*flight
	lastScope         plugin.CacheKeyType // scope of the last response; "" if unknown
	executableChanged bool                // the executable has changed since the runner was created
	retired           bool                // Reload has removed the provider
	backoff           map[string]backoff  // by image
}

// scopeNone is the scope of a provider whose last response must not be cached.
const scopeNone plugin.CacheKeyType = "none"

// providerPosition is the location of a provider in its configuration.
type providerPosition struct {
	config *config.Config
	index  int
}

func newRunner(e *keyringEnv, at providerPosition) *runner {
	p := &at.config.Providers[at.index]
	file, _ := statExecutable(e.ctx, e, p.Name, statTimeout) // lookups will report the error
	r := &runner{
		env:            e,
		name:           p.Name,
		providerConfig: cloneProvider(p),
		executable:     file,
		cache:          newResponseCache(e.opts.MaxCacheEntries),
		origin:         &responseOrigin{p.Name, Origin{Kind: FromProvider}},
		inFlight:       map[flightKey]*flight{},
		backoff:        map[string]backoff{},
	}
	r.tokenAttributes = r.providerConfig.TokenAttributes
	r.provider = newProvider(e, &r.providerConfig, r.fieldPosition)
	return r
}

// fieldPosition returns the file and line of an element of a field such as args, or "". The
// position is current even after a Reload.
func (r *runner) fieldPosition(field string, index int) string {
	entry := r.position.Load()
	// Do not use Config.Command here, because the caller may have changed Config.Providers.
	at := entry.config.Position(entry.index, fmt.Sprintf("%s[%d]", field, index))
	if at.File == "" || at.Line == 0 {
		return ""
	}
	return fmt.Sprintf("%s:%d", at.File, at.Line)
}

// cloneProvider returns a deep copy of p, so that [Keyring.Reload] detects changes that
// the caller makes to p.
func cloneProvider(p *config.Provider) config.Provider {
	c := *p
	c.MatchImages, c.Args, c.Env = slices.Clone(p.MatchImages), slices.Clone(p.Args), slices.Clone(p.Env)
	if p.DefaultCacheDuration != nil {
		c.DefaultCacheDuration = new(*p.DefaultCacheDuration)
	}
	if p.TokenAttributes != nil {
		t := *p.TokenAttributes
		if t.RequireServiceAccount != nil {
			t.RequireServiceAccount = new(*t.RequireServiceAccount)
		}
		t.RequiredServiceAccountAnnotationKeys = slices.Clone(t.RequiredServiceAccountAnnotationKeys)
		t.OptionalServiceAccountAnnotationKeys = slices.Clone(t.OptionalServiceAccountAnnotationKeys)
		c.TokenAttributes = &t
	}
	return c
}

// newProvider returns the in-process provider or the executable for p.
func newProvider(e *keyringEnv, p *config.Provider, place func(string, int) string) plugin.Provider {
	if in := e.opts.InProcess[p.Name]; in != nil {
		return plugin.ProviderFunc(func(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
			ctx, cancel := context.WithTimeout(ctx, e.opts.Timeout)
			defer cancel()
			return callInProcess(ctx, p.Name, in, req)
		})
	}
	c := p.Command(e.opts.BinDir)
	c.Environ, c.Dir, c.Timeout, c.MaxOutput, c.Grace = e.opts.Environ, e.opts.Dir, e.opts.Timeout, e.opts.MaxOutput, e.opts.Grace
	c.Place = place
	return c
}

// execPlugin runs the plugin once. It does not add the response to the cache.
func (r *runner) execPlugin(ctx context.Context, key lookupKey, id *identity) (*response, error) {
	token := id.token
	if id.needsToken() {
		ctx, cancel := context.WithTimeout(ctx, r.env.opts.Timeout)
		requested, err := r.requestToken(ctx, id.pod)
		cancel()
		if err != nil {
			return nil, err
		}
		token = requested
	}
	if err := r.checkExecutable(ctx); err != nil {
		return nil, err
	}
	answered, stderr, err := r.runPlugin(ctx, &plugin.Request{
		Image:                     key.name,
		ServiceAccountToken:       token,
		ServiceAccountAnnotations: id.annotations,
	})
	if err != nil {
		return nil, err
	}
	if err := r.checkResponse(answered, token); err != nil {
		return nil, err
	}
	resp := newResponse(answered.Auth, id.origin)
	resp.key = cacheKey{answered.CacheKeyType, key.scopedName(answered.CacheKeyType), id.key}
	resp.stderr, resp.storedAt = stderr, time.Now()
	if d := cacheDuration(answered, r.providerConfig.DefaultCacheDuration); d > 0 {
		resp.expires = resp.storedAt.Add(d)
		resp.generation = rand.Uint64() | 1
	}
	return resp, nil
}

// statTimeout limits how long New and Reload wait for the file system, which may hang. Lookups
// use Options.Timeout instead.
const statTimeout = time.Second

// statExecutable returns the attributes of a provider's executable. It returns an error
// if the file system does not respond within the timeout.
func statExecutable(ctx context.Context, e *keyringEnv, name string, timeout time.Duration) (executable.Attributes, error) {
	if e.opts.InProcess[name] != nil {
		return executable.Attributes{}, nil
	}
	path := filepath.Join(e.opts.BinDir, name)
	if e.opts.BinDir != "" && !filepath.IsAbs(path) {
		path = filepath.Join(e.opts.Dir, path)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return await.Call(ctx, fmt.Sprintf("check %s: a mount might be hanging", path), func() (executable.Attributes, error) {
		return executable.Stat(path), nil
	})
}

// checkExecutable sets r.replaced if the executable has changed. Reload then does not keep r,
// even if the previous executable is restored. checkExecutable returns an error if the file
// system hangs, because starting the plugin would also hang and could not be canceled.
func (r *runner) checkExecutable(ctx context.Context) error {
	now, err := statExecutable(ctx, r.env, r.name, r.env.opts.Timeout)
	switch {
	case err != nil && ctx.Err() == nil:
		return newStageError(plugin.StageStart, "%w", err)
	case err != nil || r.executable.IsSame(now):
		return nil // if ctx is done, the run returns that error
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.executableChanged = true
	return nil
}

// isUnchanged reports whether all of r's responses came from the configuration p and the
// current executable.
func (r *runner) isUnchanged(p *config.Provider) bool {
	now, err := statExecutable(r.env.ctx, r.env, r.name, statTimeout)
	if err != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.executableChanged && r.providerConfig.Equal(p) && r.executable.IsSame(now)
}

// runPlugin runs the plugin. It returns standard error even if the run succeeds.
func (r *runner) runPlugin(ctx context.Context, req *plugin.Request) (resp *plugin.Response, stderr string, err error) {
	start := time.Now()
	if command, ok := r.provider.(plugin.Command); ok {
		var x *plugin.Exchange
		if x, err = command.Run(ctx, req); err == nil {
			resp, stderr = x.Response, x.Stderr
		}
	} else {
		resp, err = r.provider.GetCredentials(ctx, req)
	}
	r.env.emit(ctx, Event{Kind: EventExec, Provider: r.name, Image: req.Image, Duration: time.Since(start), Stage: errorStage(err), Err: err})
	return resp, stderr, err
}

// checkResponse rejects well-formed responses that the kubelet would reject.
func (r *runner) checkResponse(resp *plugin.Response, token plugin.Secret) error {
	if !token.IsZero() && r.tokenAttributes != nil && r.tokenAttributes.CacheType != config.CachePerToken {
		for _, auth := range resp.Auth {
			if auth.Password.Equal(token) {
				return newStageError(StageEchoedToken, "the plugin returned the service account token as the password, which is allowed only if the configuration sets cacheType: Token")
			}
		}
	}
	if !protocol.IsValidCacheKeyType(string(resp.CacheKeyType)) {
		return newStageError(plugin.StageCacheKeyType, "cacheKeyType is %q; it must be Image, Registry or Global", excerpt.TruncateValue(string(resp.CacheKeyType)))
	}
	return nil
}
