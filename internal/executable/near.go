// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package executable

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/spelling"
)

// maxDirEntries limits how many entries of a directory are read.
const maxDirEntries = 4096

// FindSimilar searches dir for a file that may be meant by a name that does not exist: one in
// another case, with .exe, a version or a platform appended, in a directory or an archive
// of that name, or misspelled. It returns its path relative to dir and how to fix it; or
// "". It skips names for which taken returns true.
func FindSimilar(dir, name string, taken func(string) bool) (near, cure string) {
	f, err := os.Open(dir)
	if err != nil {
		return "", ""
	}
	defer f.Close()
	entries, _ := f.ReadDir(maxDirEntries)
	best := 0
	for _, e := range entries {
		if e.Name() == name || taken != nil && taken(e.Name()) {
			continue
		}
		found, do, rank := similarityRank(dir, e, name)
		if rank > best || rank == best && rank > 0 && cmp.Compare(found, near) < 0 {
			near, cure, best = found, do, rank
		}
	}
	return near, cure
}

// similarityRank returns how likely it is that a name refers to an entry; 0 means not
// at all.
func similarityRank(dir string, e fs.DirEntry, name string) (found, cure string, rank int) {
	const rename = "rename the file, or use its name in the configuration"
	plain := programStem(e.Name())
	packed := slices.Contains(archiveSuffixes, strings.ToLower(strings.TrimPrefix(filepath.Ext(e.Name()), ".")))
	same := plain == programStem(name)
	switch {
	case same && e.IsDir():
		inner := filepath.Join(e.Name(), name)
		if info, err := os.Stat(filepath.Join(dir, inner)); err == nil && info.Mode().IsRegular() {
			return inner, "move the file to the plugin directory", 3
		}
		return "", "", 0
	case e.IsDir():
		return "", "", 0
	case same && packed:
		return e.Name(), "extract it", 2
	case same && strings.EqualFold(e.Name(), name):
		return e.Name(), rename, 5
	case same:
		return e.Name(), rename, 4
	case isMisspelling(plain, programStem(name)):
		return e.Name(), rename, 1
	}
	return "", "", 0
}

// archiveSuffixes lists the suffixes of archives.
var archiveSuffixes = []string{"tar", "tgz", "txz", "zip", "gz", "xz", "bz2", "zst", "deb", "rpm", "apk"}

// nameSuffixes lists what is appended to programs' names, apart from versions.
var nameSuffixes = []string{"linux", "darwin", "windows", "macos", "amd64", "x86", "x64", "arm64", "aarch64", "arm", "armv7", "386", "s390x", "ppc64le", "riscv64",
	"static", "musl", "gnu", "bin", "sh", "exe", "old", "new", "bak", "orig", "tmp", "part", "download", "rc", "alpha", "beta"}

// programStem returns a name without version, platform and archive suffix.
func programStem(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("-._+ ", r) })
	for len(words) > 1 {
		last := words[len(words)-1]
		if version := strings.TrimPrefix(strings.TrimPrefix(last, "v"), "rc"); strings.Trim(version, "0123456789") != "" &&
			!slices.Contains(archiveSuffixes, last) && !slices.Contains(nameSuffixes, last) {
			break
		}
		words = words[:len(words)-1]
	}
	return strings.Join(words, "-")
}

// isMisspelling reports whether two names differ by a letter or two. It returns false
// for the names of different clouds' plugins, which differ as little.
func isMisspelling(a, b string) bool {
	const plugin = "-credential-provider"
	if cloud, other := strings.TrimSuffix(a, plugin), strings.TrimSuffix(b, plugin); cloud != a && other != b && len(cloud) <= 4 && len(other) <= 4 {
		return false
	}
	d := spelling.Distance(a, b)
	return d > 0 && d <= 2 && 4*d <= min(len(a), len(b))
}

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
