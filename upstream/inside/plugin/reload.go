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

	mu       sync.Mutex
	checking chan struct{} // closed when the running check ends; nil between checks
	until    time.Time     // when lookups stop waiting for it
	next     chan struct{} // closed when the following check ends; nil if no lookup waits for it

	// The following fields are owned by the running check.
	hash    string // of the configuration in use
	seen    seen   // its files
	refused string // why the last change was rejected; logged once
}

// checkPatience limits how long lookups wait for a check, which compares the
// configuration's files with the configuration in use. If the files do not respond in
// time, lookups stop waiting until they do.
const checkPatience = 2 * time.Second

// refresh reloads the configuration's files if they have changed. There is no watch: each
// lookup checks the files' times, so it never uses an outdated configuration. An invalid
// configuration is ignored.
func (p *providers) refresh(ctx context.Context) {
	done, until := p.check()
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// check starts to compare the files. A running check may have read them before they
// changed, so callers that arrive later share the following check.
func (p *providers) check() (done <-chan struct{}, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.checking == nil {
		p.begin(make(chan struct{}))
		return p.checking, p.until
	}
	if p.next == nil {
		p.next = make(chan struct{})
	}
	return p.next, p.until
}

// begin starts a check. The caller holds the mutex.
func (p *providers) begin(checking chan struct{}) {
	p.checking, p.until, p.next = checking, time.Now().Add(checkPatience), nil
	go func() {
		defer close(checking)
		p.noteRefusal(p.reload())
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.checking = nil; p.next != nil {
			p.begin(p.next)
		}
	}()
}

// reload loads changed files. It only reads files that may have changed, because reading
// a configuration takes longer than the rest of a lookup.
func (p *providers) reload() error {
	files := p.seen.look(p.now())
	if p.seen.same(&files) {
		return nil
	}
	p.seen.at = time.Time{}
	c, err := p.load()
	if err != nil {
		return err
	}
	if err := p.takeOver(c); err != nil {
		return err
	}
	if names := filesOf(c); !slices.Equal(names, p.seen.names) {
		p.seen = seen{names: names} // checked the next time
	} else if files.atRest() {
		p.seen = files
	}
	return nil
}

// takeOver puts a configuration into use.
func (p *providers) takeOver(c *config.Config) error {
	if c.Hash() == p.hash {
		return nil
	}
	if err := p.executables(c); err != nil {
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

// noteRefusal counts a rejected change and logs each reason once.
func (p *providers) noteRefusal(err error) {
	if err == nil {
		p.refused = ""
		return
	}
	recordReload("failure")
	if said := err.Error(); said != p.refused {
		p.refused = said
		logRefused(p.path, err)
	}
}
