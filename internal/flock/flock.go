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
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// maxLockWait is the maximum time to wait for a lock.
const maxLockWait = 2 * time.Minute

// LockDir takes an exclusive lock on a directory before files in it are changed; see [Wait]. It
// locks the directory itself, because files in it are replaced with renames.
func LockDir(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := Wait(ctx, f); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// Wait takes an exclusive lock on an open file or directory. The lock is held until the file is
// closed. If another process holds the lock for two minutes, Wait returns an error that names
// this process.
//
// On systems and file systems without locks, Wait does nothing.
func Wait(ctx context.Context, f *os.File) error {
	for end := time.Now().Add(maxLockWait); ; {
		held, err := TryLock(f)
		switch {
		case held, errors.Is(err, errors.ErrUnsupported):
			return nil
		case err != nil:
			return err
		case time.Now().After(end):
			return fmt.Errorf("%s has held the lock (flock) for %s: if that process hangs, stop it", cmp.Or(describeHolder(f), "another process"), maxLockWait)
		}
		// Poll the lock, because a blocking flock call would ignore the context.
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
