// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"os"
	"syscall"
	"time"
)

func statFile(name string) (s fileState, ok bool) {
	info, err := os.Stat(name)
	if err != nil {
		return s, false
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return s, false
	}
	return fileState{
		device:   uint64(sys.Dev),
		inode:    sys.Ino,
		size:     sys.Size,
		modified: info.ModTime(),
		changed:  time.Unix(sys.Ctim.Unix()),
	}, true
}
