// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !linux && !darwin

package executable

import (
	"io/fs"
	"time"
)

// ChangeTime returns a file's mtime, because the ctime is not available on this system.
func ChangeTime(info fs.FileInfo) time.Time { return info.ModTime() }
