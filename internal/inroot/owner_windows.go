// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package inroot

import (
	"io/fs"
	"os"
)

// CopyOwner does nothing, because a new file on Windows has the permissions of its directory.
func CopyOwner(*os.File, fs.FileInfo) bool { return true }

// syncDir does nothing, because Windows cannot sync directories.
func syncDir(string) {}
