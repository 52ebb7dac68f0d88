// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"context"
	"sync"
	"time"

	"github.com/regcred/regcred"
)

// providers are a configuration at work, and the files that it comes from.
type providers struct {
	path, binDir string
	keyring      *regcred.Keyring

	mu       sync.Mutex
	checking chan struct{} // closed when the check that is under way ends; nil if there is none
	hash     string        // of the configuration in use; a check that is under way has it for itself
	refused  string        // why the last one was not taken, which is logged once
}

// checkPatience is how long a lookup waits until the configuration's files are
// compared with what is in use. Files that do not answer are left behind.
const checkPatience = 2 * time.Second

// refresh takes the configuration's files over if they have changed. Nothing
// else watches them: a pull reads a few kilobytes, and is never late. What is
// not usable changes nothing.
func (p *providers) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	select {
	case <-p.check():
	case <-ctx.Done():
	}
}

// check begins to compare the files, unless somebody does so already.
func (p *providers) check() (done <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.checking != nil {
		return p.checking
	}
	checking := make(chan struct{})
	p.checking = checking
	go func() {
		defer close(checking)
		err := p.reload()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.checking = nil
		p.noteRefusal(err)
	}()
	return checking
}

// reload takes changed files over.
func (p *providers) reload() error {
	c, err := p.load()
	if err != nil || c.Hash() == p.hash {
		return err
	}
	if err := p.executables(c); err != nil {
		return err
	}
	if err := p.keyring.Reload(c); err != nil {
		return err
	}
	p.hash = c.Hash()
	recordConfigHash(p.hash)
	logReloaded(p.path, c)
	return nil
}

// noteRefusal logs why changed files are not taken over, once for each reason.
func (p *providers) noteRefusal(err error) {
	if err == nil {
		p.refused = ""
		return
	}
	if said := err.Error(); said != p.refused {
		p.refused = said
		logRefused(p.path, err)
	}
}
