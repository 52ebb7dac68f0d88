// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package tally

import (
	"io/fs"
	"os"
	"syscall"
)

// isOwnedByUser reports whether this process's user owns a file.
func isOwnedByUser(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

func onlyOwnerCanWrite(mode fs.FileMode) bool { return mode.Perm()&0o022 == 0 }
