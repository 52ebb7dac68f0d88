// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// host is what the providers at work need of the keyring that they work for:
// its options, a life that ends with it, and somebody to tell.
type host struct {
	opts Options

	ctx    context.Context // ends with the keyring
	cancel context.CancelFunc
	life   sync.RWMutex // held while background work is begun, and by end
	wg     sync.WaitGroup
}

func newHost(opts Options) *host {
	opts.InProcess, opts.Sources = maps.Clone(opts.InProcess), slices.Clone(opts.Sources)
	opts.Command.Environ = slices.Clone(opts.Command.Environ)
	ctx, cancel := context.WithCancel(context.Background())
	return &host{opts: opts, ctx: ctx, cancel: cancel}
}

func (h *host) ended() bool { return h.ctx.Err() != nil }

// background runs f unless the keyring is closed; end waits for it.
func (h *host) background(f func()) bool {
	h.life.RLock()
	defer h.life.RUnlock()
	if h.ended() {
		return false
	}
	h.wg.Go(f)
	return true
}

// end cancels what is under way, and waits for it.
func (h *host) end() {
	h.life.Lock()
	h.cancel()
	h.life.Unlock()
	h.wg.Wait()
}

// observe passes an event on.
func (h *host) observe(e Event) {
	if h.opts.Observer != nil {
		h.opts.Observer(e)
	}
	if log := h.opts.Logger; log != nil {
		log.Debug("credential provider", "event", e.Kind, "provider", e.Provider, "image", e.Image,
			"duration", e.Duration, "stage", e.Stage, "err", e.Err)
	}
}

// report tells what came of an attempt for an image.
func (h *host) report(a *Attempt, image string) {
	if h.opts.Observer == nil && h.opts.Logger == nil {
		return
	}
	e := Event{Provider: a.Provider, Image: image, Duration: a.Duration, Stage: a.Stage, Err: a.Err}
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
	h.observe(e)
}
