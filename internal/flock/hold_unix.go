// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package flock

import (
	"errors"
	"os"
	"syscall"
)

// TryLock takes an exclusive lock on an open file or directory. The lock is held until the file
// is closed. TryLock returns false if another process holds a lock. It returns
// [errors.ErrUnsupported] if locks are not available, for example for a directory on NFS, where
// the file must be open for writing (flock(2)).
func TryLock(f *os.File) (bool, error) { return tryFlock(f, syscall.LOCK_EX) }

// TryLockShared is like [TryLock], but takes a shared lock. Several processes can hold a shared
// lock.
func TryLockShared(f *os.File) (bool, error) { return tryFlock(f, syscall.LOCK_SH) }

func tryFlock(f *os.File, how int) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case errors.Is(err, syscall.EBADF), errors.Is(err, syscall.ENOLCK):
			return false, errors.ErrUnsupported
		default:
			return err == nil, err
		}
	}
}
