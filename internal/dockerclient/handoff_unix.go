// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package dockerclient

import (
	"io/fs"
	"os"
	"syscall"
)

// inheritable returns a duplicate of an open file that started programs
// inherit, or the file itself if that fails.
func inheritable(f *os.File) *os.File {
	if f == nil {
		return nil
	}
	fd, err := syscall.Dup(int(f.Fd())) // without FD_CLOEXEC
	if err != nil {
		return f
	}
	defer f.Close()
	return os.NewFile(uintptr(fd), f.Name())
}

// isOwn reports whether this user owns a file.
func isOwn(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
