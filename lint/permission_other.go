// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !unix

package lint

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// findBinary finds an executable. On Windows it tries the extensions in PATHEXT.
func findBinary(dir, name string) (string, fs.FileInfo, error) {
	abs, err := filepath.Abs(filepath.Join(dir, name)) // an absolute path, so that PATH is never searched
	if err != nil {
		return name, nil, err
	}
	path := abs
	if found, err := exec.LookPath(abs); err == nil {
		path = found
	}
	info, err := os.Stat(path)
	return path, info, err
}

func lacksExecBit(fs.FileInfo) bool { return false }

func describeWhoCanChange(string, ownership) string { return "" }

func describeWhoCanWrite(string, bool) string { return "" }

func describeForeignOwner(string) string { return "" }
