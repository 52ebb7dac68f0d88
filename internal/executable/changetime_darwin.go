// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package executable

import (
	"io/fs"
	"syscall"
)

// changeTime returns a file's ctime. Unlike mtime, archives cannot set it.
func changeTime(info fs.FileInfo) syscall.Timespec {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ctimespec
	}
	return syscall.Timespec{}
}
