// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package inroot

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// maxExchanges limits how often files are exchanged while other programs replace them.
const maxExchanges = 10

// renameChecked renames temp to at, as [FS.CheckOld] describes. On a file system that cannot
// exchange files, it does not call check.
func renameChecked(temp, at string, check func(old string) error) error {
	for range maxExchanges {
		put, err := os.Lstat(temp)
		if err != nil {
			return err
		}
		err = renameat2(temp, at, unix.RENAME_EXCHANGE)
		switch {
		case err == nil:
			if err := check(temp); err != nil {
				exchangeBack(temp, at, put)
				return err
			}
			return nil
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.EPERM):
			return os.Rename(temp, at)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		if err := check(""); err != nil {
			return err
		}
		switch err := renameat2(temp, at, unix.RENAME_NOREPLACE); {
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOTSUP):
			return os.Rename(temp, at)
		case !errors.Is(err, fs.ErrExist):
			return err
		}
	}
	return &fs.PathError{Op: "rename", Path: at, Err: unix.EAGAIN}
}

// exchangeBack undoes an exchange of temp and at. If another program has replaced the file put in
// the meantime, its file is kept.
func exchangeBack(temp, at string, put fs.FileInfo) {
	for range maxExchanges {
		next, err := os.Lstat(temp)
		if err != nil || renameat2(temp, at, unix.RENAME_EXCHANGE) != nil {
			return
		}
		if out, err := os.Lstat(temp); err != nil || os.SameFile(out, put) {
			return
		}
		put = next
	}
}

// removeChecked removes at, as [FS.CheckOld] describes. temp is a temporary name in the same
// directory.
func removeChecked(temp, at string, check func(old string) error) error {
	if err := os.Rename(at, temp); err != nil {
		return err
	}
	err := check(temp)
	if err != nil && errors.Is(renameat2(temp, at, unix.RENAME_NOREPLACE), unix.EINVAL) {
		_ = os.Link(temp, at)
	}
	_ = os.Remove(temp)
	return err
}

func renameat2(from, to string, flags uint) error {
	if err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, flags); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}
