// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package executable

import (
	"io/fs"
	"os"
)

// Attributes holds a file's metadata, such as its size and times. Comparing Attributes shows
// whether a file has changed, without reading the file. The zero value means that the file does
// not exist.
type Attributes struct{ info fs.FileInfo }

// Stat returns the attributes of path. If path does not exist, it tries path with the extension
// .exe, as Windows does for programs.
func Stat(path string) Attributes {
	for _, path := range []string{path, path + ".exe"} {
		if info, err := os.Stat(path); err == nil {
			return Attributes{info}
		}
	}
	return Attributes{}
}

// IsSame reports whether a and b are the attributes of the same, unchanged file.
func (a Attributes) IsSame(b Attributes) bool {
	if a.info == nil || b.info == nil {
		return a.info == b.info
	}
	return os.SameFile(a.info, b.info) && a.info.Size() == b.info.Size() &&
		a.info.Mode() == b.info.Mode() && a.info.ModTime().Equal(b.info.ModTime()) && ChangeTime(a.info).Equal(ChangeTime(b.info))
}
