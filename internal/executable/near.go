// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package executable

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/spelling"
)

// maxEntries bounds how much of a directory is read.
const maxEntries = 4096

// Near finds in dir a file that may be what somebody meant by name, which is not
// there: in other case, with .exe, with a version or the name of a platform
// behind it, in a directory or an archive of that name, or misspelled. It returns
// its name from dir on, and what to do; "" if there is none. Names that taken
// says yes to are those of other providers.
func Near(dir, name string, taken func(string) bool) (near, cure string) {
	f, err := os.Open(dir)
	if err != nil {
		return "", ""
	}
	defer f.Close()
	entries, _ := f.ReadDir(maxEntries)
	best := 0
	for _, e := range entries {
		if e.Name() == name || taken != nil && taken(e.Name()) {
			continue
		}
		found, do, rank := resemblance(dir, e, name)
		if rank > best || rank == best && rank > 0 && cmp.Compare(found, near) < 0 {
			near, cure, best = found, do, rank
		}
	}
	return near, cure
}

// resemblance says how likely an entry is meant by a name: 0 is not at all.
func resemblance(dir string, e fs.DirEntry, name string) (found, cure string, rank int) {
	const rename = "rename the file, or use its name in the configuration"
	plain, packed := stem(e.Name()), isPacked(e.Name())
	same := plain == stem(name)
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
	case misspelled(plain, stem(name)):
		return e.Name(), rename, 1
	}
	return "", "", 0
}

// packings are what names of archives end in.
var packings = []string{"tar", "tgz", "txz", "zip", "gz", "xz", "bz2", "zst", "deb", "rpm", "apk"}

// additions are what else is put behind the name of a program, beside versions.
var additions = []string{"linux", "darwin", "windows", "macos", "amd64", "x86", "x64", "arm64", "aarch64", "arm", "armv7", "386", "s390x", "ppc64le", "riscv64",
	"static", "musl", "gnu", "bin", "sh", "exe", "old", "new", "bak", "orig", "tmp", "part", "download", "rc", "alpha", "beta"}

func isPacked(name string) bool {
	return slices.Contains(packings, strings.ToLower(strings.TrimPrefix(filepath.Ext(name), ".")))
}

// stem is a name without what tells versions, platforms and packings apart.
func stem(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("-._+ ", r) })
	for len(words) > 1 {
		last := words[len(words)-1]
		if version := strings.TrimPrefix(strings.TrimPrefix(last, "v"), "rc"); strings.Trim(version, "0123456789") != "" &&
			!slices.Contains(packings, last) && !slices.Contains(additions, last) {
			break
		}
		words = words[:len(words)-1]
	}
	return strings.Join(words, "-")
}

// misspelled reports whether two names differ in a letter or two. Those of two
// clouds' plugins differ as little, and are not the same.
func misspelled(a, b string) bool {
	const plugin = "-credential-provider"
	if cloud, other := strings.TrimSuffix(a, plugin), strings.TrimSuffix(b, plugin); cloud != a && other != b && len(cloud) <= 4 && len(other) <= 4 {
		return false
	}
	d := spelling.Distance(a, b)
	return d > 0 && d <= 2 && 4*d <= min(len(a), len(b))
}
