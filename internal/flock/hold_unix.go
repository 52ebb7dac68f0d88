// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package flock

import (
	"errors"
	"os"
	"syscall"
)

// Hold marks an open file or directory as in use for as long as it is open,
// and reports whether nobody else has. Where there are no such marks the error
// is [errors.ErrUnsupported]: on other systems, and for a directory on NFS,
// which wants it open for writing (flock(2)).
func Hold(f *os.File) (bool, error) { return hold(f, syscall.LOCK_EX) }

// Share is [Hold] beside others who share it: nobody then holds it alone.
func Share(f *os.File) (bool, error) { return hold(f, syscall.LOCK_SH) }

func hold(f *os.File, how int) (bool, error) {
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
