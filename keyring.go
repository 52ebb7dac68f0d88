// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regcred/regcred/config"
)

// Keyring looks up credentials. It is safe for concurrent use. Keyrings do not share
// any state.
type Keyring struct {
	env      *keyringEnv
	compiled atomic.Pointer[compiledConfig]

	reload sync.Mutex // serialises Reload
}

// New returns a Keyring for a configuration. It returns an error if [config.Config.Validate]
// rejects the configuration. New does not fail if an executable is missing or broken. Instead,
// each lookup that needs the executable has a failed [Attempt].
//
// With the zero Config, the Keyring uses only pull secrets and Options.Sources, like a kubelet
// without a configuration.
func New(c *config.Config, opts Options) (*Keyring, error) {
	if err := opts.validate(c); err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	k := &Keyring{env: newKeyringEnv(opts)}
	k.compiled.Store(compileConfig(k.env, c, nil))
	return k, nil
}

// Reload replaces the configuration but keeps the Options. Lookups in progress use the previous
// configuration. Providers whose configuration and executable are unchanged keep their cached
// responses.
//
// Reload returns an error and changes nothing if [New] would reject c. After [Keyring.Close],
// it returns [ErrClosed].
func (k *Keyring) Reload(c *config.Config) error {
	k.reload.Lock()
	defer k.reload.Unlock()
	if k.env.isClosed() {
		return ErrClosed
	}
	if err := k.env.opts.validateConfig(c); err != nil {
		return fmt.Errorf("keyring: %w", err)
	}
	previous := k.compiled.Load()
	next := compileConfig(k.env, c, previous)
	k.compiled.Store(next)
	previous.retireUnused(next)
	return nil
}

// Lookup returns the credentials for an image in the kubelet's order.
//
// If no credential was found and an attempt failed, Lookup returns a [*LookupError]. It then
// also returns the Result with its Attempts, as it does if ctx is done first. Any other error
// is [ErrClosed] or means that the request is invalid.
func (k *Keyring) Lookup(ctx context.Context, req Request) (*Result, error) {
	if k.env.isClosed() {
		return nil, ErrClosed
	}
	key, err := newLookupKey(req)
	if err != nil {
		return nil, err
	}
	var buf [1]*response
	l := lookup{env: k.env, compiled: k.compiled.Load(), key: key, result: newResult(), responses: buf[:0]}
	l.addPullSecrets(req.PullSecrets)
	l.querySources(ctx)
	l.callProviders(ctx, &req)
	k.env.emitAttempts(ctx, l.result.Attempts, key.name)
	return l.result, l.err(ctx)
}

// Invalidate removes the cache entry that c came from, so that the next lookup runs the
// plugin again. Call it only if a registry returned 401 for c, because 403 and 404 have
// other causes.
//
// It does not remove a newer entry, and takes effect at most once a minute.
func (k *Keyring) Invalidate(c Credential) {
	if c.generation == 0 {
		return
	}
	for _, r := range k.compiled.Load().runners {
		if r.name == c.Provider && r.cache.invalidate(c.generation, time.Now()) {
			k.env.emit(k.env.ctx, Event{Kind: EventInvalidate, Provider: r.name})
		}
	}
}

// Close stops the running plugins, waits for them to exit, and clears the cache. Later
// lookups return [ErrClosed]. Close may be called more than once.
func (k *Keyring) Close() error {
	k.env.close()
	for _, r := range k.compiled.Load().runners {
		r.cache.clear()
	}
	return nil
}
