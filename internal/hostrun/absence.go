// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package hostrun

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// mountInfo says what is mounted where for this process (proc(5)).
const mountInfo = "/proc/self/mountinfo"

// absence says why no systemd answers at a socket. A node without one has nothing of
// it in the directory, which need not be there: a hostPath of type DirectoryOrCreate
// makes it. That is another thing than a pod which does not see the node's, and than a
// systemd that is away or in trouble.
func absence(socket string, err error) error {
	dir := path.Dir(socket)
	data, readErr := os.ReadFile(mountInfo)
	if readErr != nil {
		return fmt.Errorf("systemd does not respond at %s (%w), and it is unknown whether %s is the node's directory: %w", socket, err, dir, readErr)
	}
	return absentIn(string(data), socket, err)
}

// absentIn is absence by what is mounted.
func absentIn(mounts, socket string, err error) error {
	dir := path.Dir(socket)
	switch {
	case !isMountPoint(mounts, dir):
		return &NotMountedError{dir, err}
	case isThere(socket), isThere(dir + "/system"): // by which sd_booted(3) tells it
		return &NotAnsweringError{socket, err}
	}
	return &NoSystemdError{socket, err}
}

// isMountPoint reports whether something is mounted at a directory.
func isMountPoint(mounts, dir string) bool {
	for line := range strings.Lines(mounts) {
		if f := strings.Fields(line); len(f) > 4 && f[4] == dir { // without a blank in it, which would be \040
			return true
		}
	}
	return false
}

// isThere reports whether there is such a file, or that cannot be said.
func isThere(name string) bool {
	_, err := os.Lstat(name)
	return !errors.Is(err, fs.ErrNotExist)
}
