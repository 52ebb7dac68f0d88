// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package runstats

import (
	"io/fs"
	"os"
	"syscall"
)

// isWritableOnlyByUser reports whether this process's user owns a file and no other user
// may write to it.
func isWritableOnlyByUser(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid() && info.Mode().Perm()&0o022 == 0
}
