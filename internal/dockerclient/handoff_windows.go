// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerclient

import (
	"io/fs"
	"os"
)

// isOwnedByUser returns true, because on Windows each user has a private directory for
// temporary files.
func isOwnedByUser(fs.FileInfo) bool { return true }

// dupInheritable does nothing, because there is nothing to inherit.
func dupInheritable(f *os.File) *os.File { return f }
