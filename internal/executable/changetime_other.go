// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !linux && !darwin

package executable

import (
	"io/fs"
	"time"
)

// changeTime returns the mtime, because the ctime is not available here.
func changeTime(info fs.FileInfo) time.Time { return info.ModTime() }
