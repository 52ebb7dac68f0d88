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

// providers are a configuration at work, and the files that it comes from.
type providers struct {
	path, binDir string
	keyring      *regcred.Keyring
	now          func() time.Time // time.Now but in tests

	mu       sync.Mutex
	checking chan struct{} // closed when the check that is under way ends; nil if there is none
	until    time.Time     // how long lookups wait for it
	next     chan struct{} // closed when the one behind it ends; nil if nobody waits for that

	// The following belong to the check that is under way.
	hash    string // of the configuration in use
	seen    seen   // its files
	refused string // why the last one was not taken, which is logged once
}

// checkPatience is how long lookups wait for a check, which compares the
// configuration's files with what is in use. Files that do not answer are left
// behind: until they do, nobody waits for them again.
const checkPatience = 2 * time.Second

// refresh takes the configuration's files over if they have changed. Nothing
// else watches them: a lookup looks at their times, and is never late. What is
// not usable changes nothing.
func (p *providers) refresh(ctx context.Context) {
	done, until := p.check()
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// check begins to compare the files. A check that is under way may have looked at
// them before they changed, so whoever comes then shares the one behind it.
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

// begin begins a check. The caller holds the mutex.
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

// reload takes changed files over. It reads only those that may have changed:
// to read a configuration takes longer than all else that a lookup does.
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
		p.seen = seen{names: names} // they are looked at the next time
	} else if files.atRest() {
		p.seen = files
	}
	return nil
}

// takeOver makes a configuration the one in use.
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

// noteRefusal counts that changed files are not taken over, and logs why, once for each reason.
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
