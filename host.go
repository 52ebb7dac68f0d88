// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/regcred/regcred/internal/await"
)

// host is what the providers at work need of the keyring that they work for:
// its options, a life that ends with it, and somebody to tell.
type host struct {
	opts  Options
	names []string // of opts.Sources

	ctx    context.Context // ends with the keyring
	cancel context.CancelFunc
	life   sync.RWMutex // held while background work is begun, and by end
	wg     sync.WaitGroup
}

func newHost(opts Options) *host {
	opts.InProcess, opts.Sources = maps.Clone(opts.InProcess), slices.Clone(opts.Sources)
	opts.Command.Environ = slices.Clone(opts.Command.Environ)
	ctx, cancel := context.WithCancel(context.Background())
	h := &host{opts: opts, ctx: ctx, cancel: cancel}
	for i, s := range opts.Sources {
		h.names = append(h.names, h.nameOf(s, i))
	}
	return h
}

// nameOf is the name of a source, or its place if it does not say.
func (h *host) nameOf(s Source, i int) string {
	ctx, cancel := context.WithTimeout(h.ctx, h.opts.timeout())
	defer cancel()
	name, err := await.Result(ctx, "name", func() (string, error) { return s.Name(), nil })
	if err != nil {
		return fmt.Sprintf("Options.Sources[%d]", i)
	}
	return name
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

// observerPatience is how long an observer, or a logger, is waited for. It must
// not block at all; one that does is left behind with its events.
const observerPatience = time.Second

// observe passes events on, in order.
func (h *host) observe(ctx context.Context, events ...Event) {
	observer, log := h.opts.Observer, h.opts.Logger
	if observer == nil && log == nil || len(events) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, observerPatience)
	defer cancel()
	// There is nobody to tell of what goes wrong here.
	_, _ = await.Result(ctx, "observe", func() (struct{}, error) {
		for _, e := range events {
			if observer != nil {
				observer(e)
			}
			if log != nil {
				log.Debug("credential provider", "event", e.Kind, "provider", e.Provider, "image", e.Image,
					"duration", e.Duration, "stage", e.Stage, "err", e.Err)
			}
		}
		return struct{}{}, nil
	})
}

// report tells what came of the attempts for an image.
func (h *host) report(ctx context.Context, attempts []Attempt, image string) {
	if h.opts.Observer == nil && h.opts.Logger == nil {
		return
	}
	var events []Event
	for i := range attempts {
		if e := eventOf(&attempts[i], image); e.Kind != "" {
			events = append(events, e)
		}
	}
	h.observe(ctx, events...)
}

// eventOf is what came of one attempt; its kind is "" if that is nothing.
func eventOf(a *Attempt, image string) Event {
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
	}
	return e
}
