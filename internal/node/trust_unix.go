// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package node

import (
	"fmt"
	"io/fs"
	"syscall"
)

// writableByOthers says who besides root and user euid may change a file, and
// the command that ends it; "" if nobody. Strictly, nobody may add anything to a
// directory either.
func writableByOthers(path string, info fs.FileInfo, euid int, strict bool) (who, mend string) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	mode := info.Mode().Perm()
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		mode = 0 // it has no permissions of its own
	case info.Mode()&fs.ModeSticky != 0 && !strict:
		// As /tmp: others may add entries, but not replace one that is not
		// theirs, and whose the entry is is checked too.
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
		// Then these are not the permissions of the group, but of all that it names.
		return "writable through an access control list", "setfacl -b"
	case foreign(info, euid):
		if info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Sprintf("a symbolic link owned by user %d", stat.Uid), "chown -h root"
		}
		return fmt.Sprintf("owned by user %d", stat.Uid), "chown root"
	}
	return "", ""
}

// foreign reports whether a file belongs to neither root nor user euid.
func foreign(info fs.FileInfo, euid int) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid != 0 && int(stat.Uid) != euid
}
