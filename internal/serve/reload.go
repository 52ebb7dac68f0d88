// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package serve

import (
	"context"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/regcred/regcred"
)

const (
	// checkInterval is the time between checks of the fingerprint. File events are faster, but can
	// be lost, and do not exist on some file systems.
	checkInterval = 30 * time.Second

	settleTime    = 100 * time.Millisecond // a change consists of several file events
	maxSettleTime = time.Second            // limit for files that change all the time
)

// loadResult is the result of the last attempt to load the configuration.
type loadResult struct {
	snapshot    *snapshot // the last valid configuration; nil if there was none yet
	keyring     *regcred.Keyring
	err         error // why the last attempt failed
	fingerprint string
}

// reload loads the configuration if a file has changed since the last attempt. If it is invalid, the
// previous one is used until the next change.
func (s *Server) reload() {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	previous := s.current.Load()
	// The fingerprint is taken first, so that a change during the load is noticed by the next check.
	next := &loadResult{fingerprint: s.Source.fingerprint()}
	if previous != nil {
		if previous.fingerprint == next.fingerprint && previous.err == nil {
			return
		}
		next.snapshot, next.keyring = previous.snapshot, previous.keyring
	}
	snap, err := s.Source.load()
	if err == nil {
		err = s.apply(next, snap)
	}
	next.err = err
	s.current.Store(next)
	s.metrics.loaded(snap, err)
	switch {
	case err != nil && previous == nil: // returned by Start
	case err != nil && previous.err != nil && previous.err.Error() == err.Error(): // logged before
	case err != nil && next.snapshot != nil:
		s.Logger.Error("the configuration cannot be loaded; the previous one is used", "err", err)
	case err != nil:
		s.Logger.Error("the configuration cannot be loaded", "err", err)
	default:
		s.Logger.Info("loaded the configuration", "providers", len(snap.config.Providers), "hash", snap.hash, "generation", snap.generation)
	}
}

// apply makes snap the current configuration. Providers whose configuration and executable are
// unchanged keep their cached responses.
func (s *Server) apply(next *loadResult, snap *snapshot) (err error) {
	if next.keyring == nil {
		next.keyring, err = regcred.New(snap.config, s.keyringOptions())
	} else {
		err = next.keyring.Reload(snap.config)
	}
	if err == nil {
		next.snapshot = snap
	}
	return err
}

func (s *Server) keyringOptions() regcred.Options {
	return regcred.Options{
		BinDir: s.Source.pluginDir(), Environ: s.Environ, Timeout: s.PluginTimeout, RefreshAhead: refreshAhead, Observer: s.metrics.observe,
	}
}

// watch reloads the configuration when files change, until ctx is done.
func (s *Server) watch(ctx context.Context) {
	var events chan fsnotify.Event
	var lost chan error
	watch := func() {}
	if watcher, err := fsnotify.NewWatcher(); err != nil {
		s.Logger.Warn("file events are unavailable; the configuration is checked periodically", "interval", checkInterval, "err", err)
	} else {
		defer watcher.Close()
		events, lost = watcher.Events, watcher.Errors
		watch = func() {
			for _, dir := range s.Source.watchedDirs() {
				_ = watcher.Add(dir) // again, because it may have been replaced; if it is missing, the ticker notices a change
			}
		}
	}
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	watch()
	s.reload() // a change before the watches existed
	for {
		select {
		case <-ctx.Done():
			return
		case <-lost:
		case <-tick.C:
		case <-events:
			settle(ctx, events)
		}
		watch()
		s.reload()
	}
}

// settle waits until there are no more events.
func settle(ctx context.Context, events <-chan fsnotify.Event) {
	end := time.After(maxSettleTime)
	quiet := time.NewTimer(settleTime)
	defer quiet.Stop()
	for {
		select {
		case <-events:
			quiet.Reset(settleTime)
		case <-quiet.C:
			return
		case <-end:
			return
		case <-ctx.Done():
			return
		}
	}
}
