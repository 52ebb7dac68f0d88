// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package executable

import "syscall"

// IsOnNoexecMount reports whether path is on a file system that is mounted noexec.
func IsOnNoexecMount(path string) bool {
	const noexec = 0x8 // ST_NOEXEC in statvfs(3) and statfs(2)
	var st syscall.Statfs_t
	return syscall.Statfs(path, &st) == nil && st.Flags&noexec != 0
}
