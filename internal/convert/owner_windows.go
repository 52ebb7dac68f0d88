// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"io/fs"
	"os"
)

// takeOwner does nothing: on Windows a new file has the rights that its
// directory gives.
func takeOwner(*os.File, fs.FileInfo) bool { return true }

// syncDir does nothing: directories cannot be synced on Windows.
func syncDir(string) {}
