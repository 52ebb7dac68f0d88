// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerclient

import (
	"io/fs"
	"os"
)

// isOwn returns true: on Windows each user has a private directory for
// temporary files.
func isOwn(fs.FileInfo) bool { return true }

// inheritable does nothing, because there is nothing to inherit.
func inheritable(f *os.File) *os.File { return f }
