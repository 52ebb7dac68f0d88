// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package flock locks files and directories with flock(2). The kernel releases a lock when the
// process that holds it exits.
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

// maxLockWait is the maximum time to wait for a lock.
const maxLockWait = 2 * time.Minute

// LockDir takes an exclusive lock on a directory before files in it are changed. It locks the
// directory itself, because files in it are replaced with renames. If another process holds the
// lock for two minutes, LockDir returns an error.
//
// On systems and file systems without locks, LockDir does nothing.
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
		// Poll the lock, because a blocking flock call would ignore the context.
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		}
	}
}
