// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package inplace

import (
	"io/fs"
	"os"
	"syscall"
)

// TakeOwner gives a file the owner and the group of another, and reports
// whether it has them.
func TakeOwner(file *os.File, like fs.FileInfo) bool {
	want, ok := like.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	info, err := file.Stat()
	if err != nil {
		return false
	}
	if have, ok := info.Sys().(*syscall.Stat_t); ok && have.Uid == want.Uid && have.Gid == want.Gid {
		return true
	}
	return file.Chown(int(want.Uid), int(want.Gid)) == nil
}

// SyncDir makes the entries of a directory outlast a loss of power, where the
// file system can.
func SyncDir(name string) {
	dir, err := os.Open(name)
	if err != nil {
		return
	}
	defer dir.Close()
	_ = dir.Sync()
}
