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

// dupInheritable returns f. On Windows, child processes have no lock to inherit.
func dupInheritable(f *os.File) *os.File { return f }
