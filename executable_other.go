// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !linux && !darwin

package regcred

import (
	"io/fs"
	"time"
)

// changed is when a file was last changed, as far as it can be known here.
func changed(info fs.FileInfo) time.Time { return info.ModTime() }
