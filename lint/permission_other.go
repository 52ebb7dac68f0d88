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

// findBinary finds the executable called name in dir. On Windows it tries the extensions in
// PATHEXT.
func findBinary(dir, name string) (string, fs.FileInfo, error) {
	abs, err := filepath.Abs(filepath.Join(dir, name)) // for an absolute path, LookPath does not search PATH
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
