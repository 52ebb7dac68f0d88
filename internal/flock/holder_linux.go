// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package flock

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// describeHolder returns "process N" for the process that holds a lock on a file, or "" if it is
// unknown, for example because it is in another container.
func describeHolder(f *os.File) string {
	var stat unix.Stat_t
	locks, err := os.ReadFile("/proc/locks") // proc_locks(5)
	if err != nil || unix.Fstat(int(f.Fd()), &stat) != nil {
		return ""
	}
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev), stat.Ino)
	for line := range strings.Lines(string(locks)) {
		// 1: FLOCK  ADVISORY  WRITE 1234 fe:01:5678 0 EOF
		if w := strings.Fields(line); len(w) > 5 && w[1] == "FLOCK" && w[5] == file && w[4] != "0" {
			return "process " + w[4]
		}
	}
	return ""
}
