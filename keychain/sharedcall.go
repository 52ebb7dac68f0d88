// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package keychain

import (
	"context"
	"sync"
)

// sharedCall runs a function once for concurrent callers. The zero value is
// ready to use.
type sharedCall struct {
	mu      sync.Mutex
	pending *pendingCall
}

type pendingCall struct {
	done chan struct{}
	err  error // error to return to the waiting callers
}

// doOnce runs a function. If another call is running, do waits for it and returns its error.
// For this reason, concurrent callers wait only once for a server that does not respond. If
// the context of the running caller is done, the waiting callers get no error. A caller
// that waited and got no error must check the state again.
func (s *sharedCall) doOnce(ctx context.Context, run func() error) (ran bool, err error) {
	s.mu.Lock()
	if t := s.pending; t != nil {
		s.mu.Unlock()
		select {
		case <-t.done:
			return false, t.err
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	t := &pendingCall{done: make(chan struct{})}
	s.pending = t
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pending = nil
		close(t.done)
	}()
	err = run()
	if ctx.Err() == nil {
		t.err = err
	}
	return true, err
}
