// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
)

// providers holds the configuration in use and the state of its files.
type providers struct {
	path, binDir string
	keyring      *regcred.Keyring
	now          func() time.Time // replaced in tests

	mu           sync.Mutex
	checking     chan struct{} // closed when the running check ends; nil between checks
	waitDeadline time.Time     // when lookups stop waiting for it
	nextCheck    chan struct{} // closed when the following check ends; nil if no lookup waits for it

	// The following fields are owned by the running check.
	hash           string      // of the configuration in use
	filesState     configState // its files
	rejectedReason string      // why the last change was rejected; logged once
}

// checkWaitLimit limits how long lookups wait for a check, which compares the
// configuration's files with the configuration in use. If the files do not respond in
// time, lookups stop waiting until they do.
const checkWaitLimit = 2 * time.Second

// reloadIfChanged reloads the configuration's files if they have changed. There is no watch: each
// lookup checks the files' times, so it never uses an outdated configuration. An invalid
// configuration is ignored.
func (p *providers) reloadIfChanged(ctx context.Context) {
	done, until := p.startCheck()
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// startCheck starts to compare the files. A running check may have read them before they
// changed, so callers that arrive later share the following check.
func (p *providers) startCheck() (done <-chan struct{}, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.checking == nil {
		p.beginCheck(make(chan struct{}))
		return p.checking, p.waitDeadline
	}
	if p.nextCheck == nil {
		p.nextCheck = make(chan struct{})
	}
	return p.nextCheck, p.waitDeadline
}

// beginCheck starts a check. The caller holds the mutex.
func (p *providers) beginCheck(checking chan struct{}) {
	p.checking, p.waitDeadline, p.nextCheck = checking, time.Now().Add(checkWaitLimit), nil
	go func() {
		defer close(checking)
		p.recordRejection(p.reload())
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.checking = nil; p.nextCheck != nil {
			p.beginCheck(p.nextCheck)
		}
	}()
}

// reload loads changed files. It only reads files that may have changed, because reading
// a configuration takes longer than the rest of a lookup.
func (p *providers) reload() error {
	files := p.filesState.refresh(p.now())
	if p.filesState.isUnchanged(&files) {
		return nil
	}
	p.filesState.checkedAt = time.Time{}
	c, err := p.loadConfig()
	if err != nil {
		return err
	}
	if err := p.applyConfig(c); err != nil {
		return err
	}
	if names := configFileNames(c); !slices.Equal(names, p.filesState.names) {
		p.filesState = configState{names: names} // checked the next time
	} else if files.detectsLaterWrites() {
		p.filesState = files
	}
	return nil
}

// applyConfig puts a configuration into use.
func (p *providers) applyConfig(c *config.Config) error {
	if c.Hash() == p.hash {
		return nil
	}
	if err := p.checkExecutables(c); err != nil {
		return err
	}
	if err := p.keyring.Reload(c); err != nil {
		return err
	}
	p.hash = c.Hash()
	recordConfigHash(p.hash)
	recordReload("success")
	logReloaded(p.path, c)
	return nil
}

// recordRejection counts a rejected change and logs each reason once.
func (p *providers) recordRejection(err error) {
	if err == nil {
		p.rejectedReason = ""
		return
	}
	recordReload("failure")
	if said := err.Error(); said != p.rejectedReason {
		p.rejectedReason = said
		logRejected(p.path, err)
	}
}
