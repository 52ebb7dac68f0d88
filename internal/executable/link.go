// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package executable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// maxSymlinks is the number of symlinks that Linux follows for one name.
const maxSymlinks = 40

// FollowDanglingLink follows a dangling symlink. It returns the link's target, and the
// first directory or file along the way that does not exist. It returns "" if path is
// not a dangling symlink.
func FollowDanglingLink(path string) (target, missing string) {
	target, err := os.Readlink(path)
	if err != nil {
		return "", ""
	}
	at := path
	for range maxSymlinks {
		next, err := os.Readlink(at)
		if err != nil {
			break
		}
		if !filepath.IsAbs(next) {
			next = filepath.Join(filepath.Dir(at), next)
		}
		at = next
	}
	if missing = firstMissingPath(at); missing == "" {
		return "", ""
	}
	return target, missing
}

// firstMissingPath returns the first part of a path that does not exist or is a
// dangling symlink, or "" if all parts exist or cannot be examined.
func firstMissingPath(path string) string {
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
