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

// maxDirEntries is the maximum number of directory entries that are read.
const maxDirEntries = 4096

// FindSimilar searches dir for a file that the user may have meant by name, which does not
// exist. The file's name may be misspelled, differ in case, or have an extension, version or
// platform appended. The file may also be in an archive or a directory with that name.
// FindSimilar returns the file's path relative to dir and how to fix the problem, or "" if it
// finds no file. It skips names for which taken returns true.
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

// similarityRank returns how likely it is that the user meant e by name. Higher is more likely;
// 0 means unlikely.
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

// archiveSuffixes lists file extensions of archives.
var archiveSuffixes = []string{"tar", "tgz", "txz", "zip", "gz", "xz", "bz2", "zst", "deb", "rpm", "apk"}

// nameSuffixes lists words, other than versions, that are often appended to the names of
// programs.
var nameSuffixes = []string{"linux", "darwin", "windows", "macos", "amd64", "x86", "x64", "arm64", "aarch64", "arm", "armv7", "386", "s390x", "ppc64le", "riscv64",
	"static", "musl", "gnu", "bin", "sh", "exe", "old", "new", "bak", "orig", "tmp", "part", "download", "rc", "alpha", "beta"}

// programStem returns a program's name without the version, platform and extension.
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

// isMisspelling reports whether two names differ in one or two letters. It returns false for
// the plugins of different clouds, such as ecr-credential-provider and acr-credential-provider.
func isMisspelling(a, b string) bool {
	const plugin = "-credential-provider"
	if cloud, other := strings.TrimSuffix(a, plugin), strings.TrimSuffix(b, plugin); cloud != a && other != b && len(cloud) <= 4 && len(other) <= 4 {
		return false
	}
	d := spelling.Distance(a, b)
	return d > 0 && d <= 2 && 4*d <= min(len(a), len(b))
}

// maxSymlinks is the maximum number of symlinks that Linux follows in a path.
const maxSymlinks = 40

// FollowDanglingLink explains a dangling symlink. It returns the link's target, and the first
// path that does not exist when the link is followed. It returns "" if path is not a dangling
// symlink.
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

// firstMissingPath returns the shortest prefix of a path that does not exist. It returns "" if
// path exists or cannot be checked.
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
