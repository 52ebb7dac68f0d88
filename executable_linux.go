// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"io/fs"
	"syscall"
)

// changed is when a file was last changed in any way. Whoever writes it can set
// its modification time, as archives do, but not this one.
func changed(info fs.FileInfo) syscall.Timespec {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ctim
	}
	return syscall.Timespec{}
}
