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

// providers holds the configuration in use and the state of the configuration files.
type providers struct {
	path, binDir string
	keyring      *regcred.Keyring
	now          func() time.Time // replaced in tests

	mu           sync.Mutex
	checking     chan struct{} // closed when the running check ends; nil between checks
	waitDeadline time.Time     // time at which lookups stop waiting for the running check
	nextCheck    chan struct{} // closed when the check after the running one ends; nil if no lookup waits for it

	// Only the running check may access the following fields.
	hash           string      // hash of the configuration in use
	filesState     configState // state of the files of the configuration in use
	rejectedReason string      // why the last change was rejected, to log each reason once
}

// checkWaitLimit limits how long lookups wait for a check of the configuration files. If a check
// takes longer, for example because the file system hangs, lookups do not wait for it any more and
// use the old configuration.
const checkWaitLimit = 2 * time.Second

// reloadIfChanged reloads the configuration files if they have changed. It does not watch the
// files. Each lookup checks the files' times, so that it never uses an outdated configuration. An
// invalid configuration is ignored.
func (p *providers) reloadIfChanged(ctx context.Context) {
	done, until := p.startCheck()
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// startCheck starts a check of the files. If a check is already running, it may have read the files
// before they changed. In that case the caller waits for the check that follows, which all waiting
// callers share.
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

// beginCheck starts a check. The caller must hold the mutex.
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

// reload loads the configuration if its files have changed. It reads files only if they may have
// changed, because reading a configuration takes longer than the rest of a lookup.
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
		p.filesState = configState{names: names} // the next check reads the files again
	} else if files.detectsLaterWrites() {
		p.filesState = files
	}
	return nil
}

// applyConfig makes the keyring use a configuration.
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
