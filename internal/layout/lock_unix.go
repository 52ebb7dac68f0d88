// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package layout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// maxLock is how long a lock is waited for.
const maxLock = 2 * time.Minute

// lockDir takes the lock on a directory under which its index.json changes.
// The lock is on the directory itself: a lock file would be one more file in
// the layout, and the others are replaced by renames. Nobody needs it for long:
// who has it for maxLock is stuck.
func lockDir(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(maxLock); ; {
		held, err := hold(f)
		if held {
			return func() { f.Close() }, nil
		}
		if err != nil {
			f.Close()
			if errors.Is(err, errors.ErrUnsupported) {
				return func() {}, nil // a file system without locks: as good as it gets
			}
			return nil, err
		}
		if time.Now().After(end) {
			f.Close()
			return nil, fmt.Errorf("another process has held the lock (flock) on it for %s: end the one that hangs", maxLock)
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

// renamesOpen says that a file can be renamed while it is open.
const renamesOpen = true

// nonblock keeps an open from waiting for the other end of a pipe.
const nonblock = syscall.O_NONBLOCK

// hold marks an open file as in use for as long as it is open, and reports
// whether nobody else has. The mark goes with its process, however that ends.
// Where there are none the error is [errors.ErrUnsupported].
func hold(f *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		default:
			return err == nil, err
		}
	}
}

func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
