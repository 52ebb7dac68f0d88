// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build !linux

package inroot

import (
	"math"
	"os"
	"path/filepath"
)

const openNonblock, openNoFollow = 0, 0

// withHostPath calls do with a path through which this process can access a file of the node.
// Unlike on Linux, symlinks may lead out of the root directory.
func (f FS) withHostPath(name string, do func(at string) error) error {
	return f.withNodeName(name, do(f.HostPath(filepath.FromSlash(name))))
}

func (f FS) withHostPathFollowing(name string, do func(at string) error) error {
	return f.withHostPath(name, do)
}

func (f FS) nodeName(at string) (string, error) { return filepath.EvalSymlinks(at) }

// extendedAttrs returns nil, because extended attributes are copied only on Linux.
func extendedAttrs(string) (map[string]string, error) { return nil, nil }

func setExtendedAttrs(*os.File, map[string]string) error { return nil }

// WritableError returns an error only if the file does not exist or cannot be examined.
func (f FS) WritableError(dir string) error {
	_, err := f.Stat(dir)
	return err
}

// IsNoExec returns false, because noexec mounts are detected only on Linux.
func (FS) IsNoExec(string) bool { return false }

// IsVolatile returns false, because file systems in memory are detected only on Linux.
func (FS) IsVolatile(string) bool { return false }

// FreeBytes returns the maximum value, because the free space is determined only on Linux.
func (FS) FreeBytes(string) (uint64, error) { return math.MaxUint64, nil }
