// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package layout

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// lockDir takes the lock on a directory under which its index.json changes.
// The lock is on the directory itself: a lock file would be one more file in
// the layout, and the others are replaced by renames.
func lockDir(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			if errors.Is(err, errors.ErrUnsupported) {
				return func() {}, nil // a file system without locks: as good as it gets
			}
			return nil, err
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

func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
