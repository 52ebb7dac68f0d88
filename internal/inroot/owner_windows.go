// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package inroot

import (
	"io/fs"
	"os"
)

// CopyOwner does nothing: on Windows a new file gets the rights of its directory.
func CopyOwner(*os.File, fs.FileInfo) bool { return true }

// syncDir does nothing: Windows cannot sync directories.
func syncDir(string) {}
