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

// findBinary finds the executable called name in dir.
func findBinary(dir, name string) (string, fs.FileInfo, error) {
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	return path, info, err
}

func lacksExecBit(info fs.FileInfo) bool { return info.Mode().Perm()&0o111 == 0 }

// describeWhoCanChange describes which users other than root and the owner can change a file, its
// symlink target or a parent directory. With trustedOwner, it also describes an owner who is not
// trusted. It returns "" if there are no such users.
func describeWhoCanChange(path string, owner ownership) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	paths := []string{abs}
	if real, err := filepath.EvalSymlinks(abs); err == nil && real != abs {
		paths = append(paths, real)
	}
	for _, p := range paths {
		for previous := ""; p != previous; previous, p = p, filepath.Dir(p) {
			who := describeWhoCanWrite(p, true)
			if who == "" && owner == trustedOwner {
				who = describeForeignOwner(p)
			}
			if who != "" {
				return who
			}
		}
	}
	return ""
}

// describeWhoCanWrite describes which users other than root and the owner can write to a file or
// directory. It returns "" if there are none. If stickyIsSafe is set, it ignores sticky
// directories, in which users cannot replace other users' files.
func describeWhoCanWrite(path string, stickyIsSafe bool) string {
	info, err := os.Stat(path)
	if err != nil || stickyIsSafe && info.IsDir() && info.Mode()&fs.ModeSticky != 0 {
		return ""
	}
	perm := info.Mode().Perm()
	if perm&0o002 != 0 {
		return fmt.Sprintf("%s is writable by all users (mode %04o)", path, perm)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	// Group 0 and the owner's private group have no other members.
	if ok && perm&0o020 != 0 && st.Gid != 0 && st.Gid != st.Uid {
		return fmt.Sprintf("%s is writable by group %d (mode %04o)", path, st.Gid, perm)
	}
	return ""
}

// describeForeignOwner describes a file's owner. It returns "" if the owner is root or the
// current user.
func describeForeignOwner(path string) string {
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
