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

// mountInfoPath lists this process's mounts (proc(5)).
const mountInfoPath = "/proc/self/mountinfo"

// unavailableError returns why systemd does not respond at a socket: the node has no
// systemd, the pod does not mount the node's directory, or systemd is unavailable. The
// directory may exist even on a node without systemd, because a hostPath of type
// DirectoryOrCreate creates it.
func unavailableError(socket string, err error) error {
	dir := path.Dir(socket)
	data, readErr := os.ReadFile(mountInfoPath)
	if readErr != nil {
		return fmt.Errorf("systemd does not respond at %s (%w), and it is unknown whether %s is the node's directory: %w", socket, err, dir, readErr)
	}
	return unavailableErrorFor(string(data), socket, err)
}

// unavailableErrorFor is absence with the content of mountInfoPath.
func unavailableErrorFor(mounts, socket string, err error) error {
	dir := path.Dir(socket)
	switch {
	case !isMountPoint(mounts, dir):
		return &NotMountedError{dir, err}
	case mayExist(socket), mayExist(dir + "/system"): // as sd_booted(3) checks
		return &NotRespondingError{socket, err}
	}
	return &NoSystemdError{socket, err}
}

// isMountPoint reports whether a directory is a mount point.
func isMountPoint(mounts, dir string) bool {
	for line := range strings.Lines(mounts) {
		if f := strings.Fields(line); len(f) > 4 && f[4] == dir { // dir has no space, which would appear as \040
			return true
		}
	}
	return false
}

// mayExist reports whether a file exists or cannot be examined.
func mayExist(name string) bool {
	_, err := os.Lstat(name)
	return !errors.Is(err, fs.ErrNotExist)
}
