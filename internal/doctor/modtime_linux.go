// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"os"
	"syscall"
	"time"
)

// changeTime returns when a file was written or replaced. A rename updates only the
// inode's change time.
func changeTime(path string) (time.Time, error) {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}, err
	}
	at := info.ModTime()
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		if inode := time.Unix(s.Ctim.Unix()); inode.After(at) {
			at = inode
		}
	}
	return at, nil
}
