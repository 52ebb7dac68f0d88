// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package executable

import (
	"io/fs"
	"syscall"
	"time"
)

// ChangeTime returns a file's ctime. Unlike the mtime, programs such as tar cannot set it.
func ChangeTime(info fs.FileInfo) time.Time {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(s.Ctim.Unix())
	}
	return time.Time{}
}
