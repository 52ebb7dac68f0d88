// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package inroot reads and changes the files of a node. The node's root directory may be any
// directory of this machine, such as an image that is being built or the mounted disk of
// another node. File names are absolute paths on the node. Symlinks are resolved within the
// node's root directory and never lead out of it.
//
//	node := inroot.FS{Root: "/mnt/image"}
//	data, err := node.ReadFile(ctx, "/etc/kubernetes/credential-providers.yaml")
//	…
//	err = node.WriteFile("/etc/kubernetes/credential-providers.yaml", bytes.NewReader(data), inroot.FileAttr{Mode: 0o644})
//
// Files are replaced atomically with a rename. The file and its directory are synced.
package inroot

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/regcred/regcred/internal/regularfile"
)

// FS provides the files of a node. The zero value provides the files of this machine.
type FS struct {
	Root string // the node's root directory on this machine; "" means "/"

	// BeforeStep is called before each step of a change. If it returns an error, the step and
	// the change fail. BeforeStep may be nil.
	BeforeStep func(step, name string) error

	// Overlay, if not nil, records changes instead of making them.
	Overlay *Overlay

	// CheckOld makes WriteFile and Remove detect changes by programs that take no lock. On Linux,
	// it is called with the path of the file that the change took out, or with "" if there was
	// none. If it returns an error, the file is put back and the change fails. CheckOld may be nil.
	CheckOld func(old string) error
}

const maxFileSize = 16 << 20

// isHostRoot reports whether the node is this machine.
func (f FS) isHostRoot() bool {
	return f.Root == "" || filepath.Clean(f.Root) == string(filepath.Separator)
}

// readPath calls read with a path on this machine and returns the result. via is [FS.withHostPath]
// or [FS.withHostPathFollowing].
func readPath[T any](via func(string, func(string) error) error, name string, read func(at string) (T, error)) (v T, err error) {
	err = via(name, func(at string) error {
		v, err = read(at)
		return err
	})
	return v, err
}

// ReadFile reads a regular file. The file may have at most 16 MiB. ReadFile follows symlinks.
func (f FS) ReadFile(ctx context.Context, name string) ([]byte, error) {
	if f.Overlay != nil {
		return f.overlayReadFile(name, func(disk FS, at string) ([]byte, error) { return disk.ReadFile(ctx, at) })
	}
	return readPath(f.withHostPathFollowing, name, func(at string) ([]byte, error) { return regularfile.Read(ctx, at, maxFileSize) })
}

// Stat is like [os.Stat].
func (f FS) Stat(name string) (fs.FileInfo, error) {
	if f.Overlay != nil {
		return f.overlayStat(name, true)
	}
	return readPath(f.withHostPathFollowing, name, os.Stat)
}

// Lstat is like [os.Lstat]. It does not follow a symlink in the last element of name.
func (f FS) Lstat(name string) (fs.FileInfo, error) {
	if f.Overlay != nil {
		return f.overlayStat(name, false)
	}
	return readPath(f.withHostPath, name, os.Lstat)
}

// Readlink is like [os.Readlink].
func (f FS) Readlink(name string) (string, error) {
	if f.Overlay != nil {
		return f.overlayReadlink(name)
	}
	return readPath(f.withHostPath, name, os.Readlink)
}

// ReadDir is like [os.ReadDir].
func (f FS) ReadDir(name string) ([]fs.DirEntry, error) {
	if f.Overlay != nil {
		return f.overlayReadDir(name)
	}
	return readPath(f.withHostPathFollowing, name, os.ReadDir)
}

// Open opens a file or directory for reading. It does not block on a named pipe without a
// writer.
func (f FS) Open(name string) (*os.File, error) {
	if f.Overlay != nil {
		return f.overlayOpen(name)
	}
	return readPath(f.withHostPathFollowing, name, func(at string) (*os.File, error) { return os.OpenFile(at, os.O_RDONLY|openNonblock, 0) })
}

// OpenLock opens a file that processes lock, and creates it if necessary. Only its owner can open
// it, so other users cannot hold its lock. It does not follow a symlink.
func (f FS) OpenLock(name string) (*os.File, error) {
	return readPath(f.withHostPath, name, func(at string) (*os.File, error) { return os.OpenFile(at, os.O_RDWR|os.O_CREATE|openNoFollow, 0o600) })
}

// EvalSymlinks returns the path of a file on the node after all symlinks are resolved. The
// error wraps [fs.ErrNotExist] if the file does not exist.
func (f FS) EvalSymlinks(name string) (string, error) {
	if f.Overlay != nil {
		return f.overlayEvalSymlinks(name)
	}
	return readPath(f.withHostPathFollowing, name, f.nodeName)
}

// Exists reports whether name exists. A dangling symlink also exists.
func (f FS) Exists(name string) bool {
	_, err := f.Lstat(name)
	return err == nil
}

// HostPath converts a path on the node to a path on this machine, for executing or printing it.
// Call [FS.EvalSymlinks] first, because this machine would resolve symlinks in the path outside
// of the node's root directory.
func (f FS) HostPath(name string) string {
	if f.isHostRoot() {
		return name
	}
	return filepath.Join(f.Root, name)
}

// withNodeName replaces the path in an error with HostPath(name).
func (f FS) withNodeName(name string, err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: failed.Op, Path: f.HostPath(name), Err: failed.Err}
	}
	if failed, ok := errors.AsType[*os.LinkError](err); ok {
		return &fs.PathError{Op: failed.Op, Path: f.HostPath(name), Err: failed.Err}
	}
	return err
}

// IsMissing reports whether an error means that there is no such file: it does not exist, or a part of
// its path is not a directory.
func IsMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
