// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package flock has locks (flock) that go with their process, however that
// ends.
//
//	unlock, err := flock.Dir(ctx, dir)
//	if err == nil {
//		defer unlock()
//	}
package flock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// maxWait is how long a lock is waited for.
const maxWait = 2 * time.Minute

// Dir takes the lock on a directory, under which files in it change. The lock
// is on the directory itself: a lock file would be one more file in it, and
// the others are replaced by renames. Nobody needs it for long: who has it for
// two minutes is stuck, which is an error.
//
// Where there are no locks Dir does nothing.
func Dir(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(maxWait); ; {
		held, err := Hold(f)
		if held {
			return func() { f.Close() }, nil
		}
		if err != nil {
			f.Close()
			if errors.Is(err, errors.ErrUnsupported) {
				return func() {}, nil // a system or a file system without locks: as good as it gets
			}
			return nil, err
		}
		if time.Now().After(end) {
			f.Close()
			return nil, fmt.Errorf("another process has held the lock (flock) for %s: if that process hangs, stop it", maxWait)
		}
		// Not a blocking flock: that would not end with the context.
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		}
	}
}
