// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package dockerclient

import (
	"io/fs"
	"os"
	"syscall"
)

// handedOn returns the same open file, which the programs that are started have
// too; the file itself, which they do not, if there can be none.
func handedOn(f *os.File) *os.File {
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

// isOurs reports whether a file belongs to this user.
func isOurs(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
