// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package flock takes locks with flock(2), which end with the process that
// holds them.
//
//	unlock, err := flock.LockDir(ctx, dir)
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

// maxLockWait limits the wait for a lock.
const maxLockWait = 2 * time.Minute

// LockDir locks a directory for changing files in it. It locks the directory itself,
// because files in it are replaced by renames and a lock file would be one more file.
// It returns an error after two minutes, because no process needs the lock that long.
//
// Where locks are not supported, LockDir does nothing.
func LockDir(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(maxLockWait); ; {
		held, err := TryLock(f)
		if held {
			return func() { f.Close() }, nil
		}
		if err != nil {
			f.Close()
			if errors.Is(err, errors.ErrUnsupported) {
				return func() {}, nil // the system or file system does not support locks
			}
			return nil, err
		}
		if time.Now().After(end) {
			f.Close()
			return nil, fmt.Errorf("another process has held the lock (flock) for %s: if that process hangs, stop it", maxLockWait)
		}
		// Poll, because a blocking flock would ignore the context.
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		}
	}
}
