// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package node

import (
	"fmt"
	"io/fs"
	"syscall"
)

// writableByOthers returns who can change a file, other than root and euid, and a command that
// prevents this. It returns "" if no other user can. If strict is set, other users must not be
// able to add files to a directory either.
func writableByOthers(path string, info fs.FileInfo, euid int, strict bool) (who, fix string) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	mode := info.Mode().Perm()
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		mode = 0 // symlinks have no permission bits of their own
	case info.Mode()&fs.ModeSticky != 0 && !strict:
		// In a sticky directory such as /tmp, users cannot replace other users' files.
		mode &^= 0o022
	}
	switch {
	case mode&0o002 != 0:
		return "writable by all users", "chmod go-w"
	case !ok:
		return "", ""
	case mode&0o020 != 0 && stat.Gid != 0:
		return fmt.Sprintf("writable by group %d", stat.Gid), "chmod g-w"
	case mode&0o020 != 0 && hasACL(path):
		// With an access control list, the group bits are the list's mask (acl(5)).
		return "writable through an access control list", "setfacl -b"
	case stat.Uid != 0 && int(stat.Uid) != euid:
		if info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Sprintf("a symbolic link owned by user %d", stat.Uid), "chown -h root"
		}
		return fmt.Sprintf("owned by user %d", stat.Uid), "chown root"
	}
	return "", ""
}
