// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package inroot

import (
	"io/fs"
	"os"
	"syscall"
)

// CopyOwner gives a file the owner and group of another file. It returns false if it is
// not permitted to.
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

// syncDir makes the entries of a directory survive a power loss, if the file system
// supports it.
func syncDir(name string) {
	dir, err := os.Open(name)
	if err != nil {
		return
	}
	defer dir.Close()
	_ = dir.Sync()
}
