// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package executable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// maxLinks is how many symlinks Linux follows for one name.
const maxLinks = 40

// Dangling follows a dangling symlink. It returns the link's target, and the first
// directory or file on its way that does not exist; "" if path is not a dangling symlink.
func Dangling(path string) (target, missing string) {
	target, err := os.Readlink(path)
	if err != nil {
		return "", ""
	}
	at := path
	for range maxLinks {
		next, err := os.Readlink(at)
		if err != nil {
			break
		}
		if !filepath.IsAbs(next) {
			next = filepath.Join(filepath.Dir(at), next)
		}
		at = next
	}
	if missing = firstMissing(at); missing == "" {
		return "", ""
	}
	return target, missing
}

// firstMissing returns the first part of a path that does not exist or is a dangling
// symlink; "" if all exist or cannot be examined.
func firstMissing(path string) string {
	missing := ""
	for {
		_, err := os.Stat(path)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return missing
		}
		missing = path
		parent := filepath.Dir(path)
		if parent == path {
			return missing
		}
		path = parent
	}
}
