// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !linux

package inroot

import (
	"math"
	"os"
	"path/filepath"
)

const openNonblock = 0

// withHostPath calls do with a path under which this process can access a file of the
// node. Symlinks may lead out of the root directory here, because nodes run only Linux.
func (f FS) withHostPath(name string, do func(at string) error) error {
	return f.withNodeName(name, do(f.HostPath(filepath.FromSlash(name))))
}

func (f FS) withHostPathFollowing(name string, do func(at string) error) error {
	return f.withHostPath(name, do)
}

func (f FS) nodeName(at string) (string, error) { return filepath.EvalSymlinks(at) }

// SELinuxLabel returns "", because there is no SELinux.
func (FS) SELinuxLabel(string) string { return "" }

func setSELinuxLabel(*os.File, string) error { return nil }

// WritableError only checks whether the file exists.
func (f FS) WritableError(dir string) error {
	_, err := f.Stat(dir)
	return err
}

// IsNoExec returns false, because there are no such mounts.
func (FS) IsNoExec(string) bool { return false }

// FreeBytes returns the maximum value, which means no limit.
func (FS) FreeBytes(string) (uint64, error) { return math.MaxUint64, nil }
