// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package inroot

import (
	"io/fs"
	"os"
	"syscall"
)

// CopyOwner sets a file's owner and group to those of the file like. It returns false if that
// fails.
func CopyOwner(file *os.File, like fs.FileInfo) bool {
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

// syncDir syncs a directory, so that its entries survive a power loss. It ignores errors,
// because not every file system supports this.
func syncDir(name string) {
	dir, err := os.Open(name)
	if err != nil {
		return
	}
	defer dir.Close()
	_ = dir.Sync()
}
