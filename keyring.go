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

// Keyring looks up credentials. It is safe for concurrent use. Several may
// live side by side; they share nothing.
type Keyring struct {
	host *host
	ring atomic.Pointer[ring]

	reload sync.Mutex // held while a ring is made of another
}

// New makes a Keyring of a configuration, and refuses what [config.Config.Validate]
// refuses. A missing or broken executable is not an error here but an
// [Attempt] of each lookup that would run it. With the zero Config, of no file
// and no provider, it has pull secrets and Options.Sources alone, as a kubelet
// that was given no configuration.
func New(c *config.Config, opts Options) (*Keyring, error) {
	if err := opts.check(c); err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	k := &Keyring{host: newHost(opts)}
	k.ring.Store(newRing(k.host, c, nil))
	return k, nil
}

// Reload replaces the configuration, with the same Options. Lookups that are
// under way end with the former one. A provider whose entry and executable are
// unchanged keeps its cached answers; that of any other is asked anew. If New
// would refuse c, Reload does, and nothing has changed. After [Keyring.Close]
// it returns [ErrClosed].
func (k *Keyring) Reload(c *config.Config) error {
	k.reload.Lock()
	defer k.reload.Unlock()
	if k.host.ended() {
		return ErrClosed
	}
	if err := k.host.opts.checkConfig(c); err != nil {
		return fmt.Errorf("keyring: %w", err)
	}
	former := k.ring.Load()
	next := newRing(k.host, c, former)
	k.ring.Store(next)
	former.retire(next)
	return nil
}

// Lookup returns the credentials for an image, in the kubelet's order. With
// none, and a failure, the error is a [*LookupError], and the Result with its
// Attempts is returned beside it, as it is when ctx ends first. Other errors
// mean that the request is invalid, or [ErrClosed].
func (k *Keyring) Lookup(ctx context.Context, req Request) (*Result, error) {
	if k.host.ended() {
		return nil, ErrClosed
	}
	q, err := newQuestion(req)
	if err != nil {
		return nil, err
	}
	var room [1]*answer
	l := lookup{host: k.host, ring: k.ring.Load(), q: q, res: newResult(), answers: room[:0]}
	l.askSecrets(req.PullSecrets)
	l.askSources(ctx)
	l.askProviders(ctx, &req)
	k.host.report(ctx, l.res.Attempts, q.name)
	return l.res, l.verdict(ctx)
}

// Invalidate says that a registry refused c with 401. The cache entry that it
// came from is dropped if it is still there (and not a later one), at most
// once a minute, so that the next lookup runs the plugin again. Other answers
// of a registry, 403 and 404 among them, have other reasons: do not call it then.
func (k *Keyring) Invalidate(c Credential) {
	if c.generation == 0 {
		return
	}
	for _, r := range k.ring.Load().runners {
		if r.name == c.Provider && r.cache.invalidate(c.generation, time.Now()) {
			k.host.observe(k.host.ctx, Event{Kind: EventInvalidate, Provider: r.name})
		}
	}
}

// Close ends the plugins that are running, waits for them, and empties the
// cache. Lookups fail from then on. It may be called more than once.
func (k *Keyring) Close() error {
	k.host.end()
	for _, r := range k.ring.Load().runners {
		r.cache.clear()
	}
	return nil
}
