// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"log/slog"
	"sync"
)

// keyringEnv holds what the runners of a keyring share: its options, its lifetime and
// its event reporting.
type keyringEnv struct {
	opts        Options
	sourceNames []string

	ctx    context.Context // canceled when the keyring is closed
	cancel context.CancelFunc
	mu     sync.RWMutex // write-locked by close, so that no goroutine starts meanwhile
	wg     sync.WaitGroup
}

func newKeyringEnv(opts Options) *keyringEnv {
	ctx, cancel := context.WithCancel(context.Background())
	e := &keyringEnv{opts: opts.withDefaults(), ctx: ctx, cancel: cancel}
	for _, s := range opts.Sources {
		e.sourceNames = append(e.sourceNames, s.Name())
	}
	return e
}

func (e *keyringEnv) isClosed() bool { return e.ctx.Err() != nil }

// startGoroutine runs f in a goroutine that close waits for. It returns false if the
// keyring is closed.
func (e *keyringEnv) startGoroutine(f func()) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.isClosed() {
		return false
	}
	e.wg.Go(f)
	return true
}

// close cancels the work in progress and waits for it.
func (e *keyringEnv) close() {
	e.mu.Lock()
	e.cancel()
	e.mu.Unlock()
	e.wg.Wait()
}

// emit passes an event to the observer and the logger. It must not allocate unless
// debug logging is on, because cached lookups call it too.
func (e *keyringEnv) emit(ctx context.Context, ev Event) {
	if e.opts.Observer != nil {
		e.opts.Observer(ev)
	}
	if log := e.opts.Logger; log != nil && log.Enabled(ctx, slog.LevelDebug) {
		log.DebugContext(ctx, "credential provider", "event", ev.Kind, "provider", ev.Provider, "image", ev.Image,
			"duration", ev.Duration, "stage", ev.Stage, "err", ev.Err)
	}
}

func (e *keyringEnv) emitAttempts(ctx context.Context, attempts []Attempt, image string) {
	for i := range attempts {
		a := &attempts[i]
		if kind := eventKind(a); kind != "" {
			e.emit(ctx, Event{Kind: kind, Provider: a.Provider, Image: image, Duration: a.Duration, Stage: a.Stage, Err: a.Err})
		}
	}
}

func eventKind(a *Attempt) EventKind {
	if a.Err != nil {
		return EventFailure
	}
	switch a.Cache {
	case CacheHit:
		return EventCacheHit
	case CacheMiss:
		return EventCacheMiss
	case CacheCoalesced:
		return EventCoalesced
	}
	return ""
}
