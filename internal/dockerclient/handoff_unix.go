// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package dockerclient

import (
	"io/fs"
	"os"
	"syscall"
)

// dupInheritable returns a duplicate of an open file that child processes inherit. If
// that fails, it returns the file itself.
func dupInheritable(f *os.File) *os.File {
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

func isOwnedByUser(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
