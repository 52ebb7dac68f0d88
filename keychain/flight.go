// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"context"
	"sync"
)

// flight lets one do what many wait for. The zero value is ready to use.
type flight struct {
	mu  sync.Mutex
	now *trip
}

type trip struct {
	done chan struct{}
	err  error // for those who wait
}

// do runs f, or waits while another's f is running and returns its error:
// a server that never answers is waited for once, not by one after the other. The
// error of one whose own context has ended is nobody else's. Who waited without
// an error looks again at what has been done meanwhile.
func (f *flight) do(ctx context.Context, run func() error) (ran bool, err error) {
	f.mu.Lock()
	if t := f.now; t != nil {
		f.mu.Unlock()
		select {
		case <-t.done:
			return false, t.err
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	t := &trip{done: make(chan struct{})}
	f.now = t
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.now = nil
		close(t.done)
	}()
	err = run()
	if ctx.Err() == nil {
		t.err = err
	}
	return true, err
}
