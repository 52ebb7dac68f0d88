// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package lint

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ownership says whom a file may belong to.
type ownership bool

const (
	anyOwner     ownership = false
	trustedOwner ownership = true // root, or whoever runs this
)

// findBinary finds an executable as exec.LookPath does with a path.
func findBinary(dir, name string) (string, fs.FileInfo, error) {
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	return path, info, err
}

func lacksExecBit(info fs.FileInfo) bool { return info.Mode().Perm()&0o111 == 0 }

// tamperable says who, beside root and the owner, can change the file or
// replace it through a directory above it, as written and as resolved; "" if
// nobody.
func tamperable(path string, owner ownership) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	paths := []string{abs}
	if real, err := filepath.EvalSymlinks(abs); err == nil && real != abs {
		paths = append(paths, real)
	}
	for _, p := range paths {
		for {
			if who := writableByOthers(p, true); who != "" {
				return who
			}
			if who := foreignOwner(p); owner == trustedOwner && who != "" {
				return who
			}
			parent := filepath.Dir(p)
			if parent == p {
				break
			}
			p = parent
		}
	}
	return ""
}

// writableByOthers says who, beside root and the owner, can write to a file or
// directory; "" if nobody. In a sticky directory they can add files, but not
// replace those of others.
func writableByOthers(path string, stickyIsSafe bool) string {
	info, err := os.Stat(path)
	if err != nil || stickyIsSafe && info.IsDir() && info.Mode()&fs.ModeSticky != 0 {
		return ""
	}
	perm := info.Mode().Perm()
	if perm&0o002 != 0 {
		return fmt.Sprintf("%s is writable by all users (mode %04o)", path, perm)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	// A group of number 0 or of the owner's own number has nobody else in it.
	if ok && perm&0o020 != 0 && st.Gid != 0 && st.Gid != st.Uid {
		return fmt.Sprintf("%s is writable by group %d (mode %04o)", path, st.Gid, perm)
	}
	return ""
}

// foreignOwner says whom a file belongs to, if that is neither root nor
// whoever runs this.
func foreignOwner(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Uid == 0 || int(st.Uid) == os.Geteuid() {
		return ""
	}
	return fmt.Sprintf("%s is owned by user %d", path, st.Uid)
}
