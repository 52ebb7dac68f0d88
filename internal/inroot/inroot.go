// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package inroot reads and changes the files of a node whose root directory
// may be any directory of this machine: an image that is being built, or the
// disk of another node. Names are absolute, as on the node; links in them lead
// where they lead on the node, and never out of its root directory.
//
//	node := inroot.FS{Root: "/mnt/image"}
//	data, err := node.ReadFile(ctx, "/etc/kubernetes/credential-providers.yaml")
//	…
//	err = node.Put("/etc/kubernetes/credential-providers.yaml", data, inroot.Attr{Mode: 0o644})
//
// What is changed is either as it was or as it should be, and lasts: a file
// comes in the place of another by a rename, and file and directory are synced.
package inroot

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/regcred/regcred/internal/regularfile"
)

// FS is the file system of a node. The zero value is that of this machine.
type FS struct {
	Root string // a directory of this machine; "" means "/"

	// Before, if not nil, is told of each step that changes something, before
	// it is made; an error of it is that step's. Tests break a node with it.
	Before func(step, name string) error
}

// maxFile bounds what is read of one file, in bytes. No configuration is as large.
const maxFile = 16 << 20

// whole reports whether the node is this machine.
func (f FS) whole() bool { return f.Root == "" || filepath.Clean(f.Root) == string(filepath.Separator) }

// ReadFile reads a regular file of at most 16 MiB. Links are followed.
func (f FS) ReadFile(ctx context.Context, name string) (data []byte, err error) {
	err = f.follow(name, func(at string) error {
		data, err = regularfile.Read(ctx, at, maxFile)
		return err
	})
	return data, err
}

// Stat is [os.Stat]: links are followed.
func (f FS) Stat(name string) (info fs.FileInfo, err error) {
	err = f.follow(name, func(at string) error {
		info, err = os.Stat(at)
		return err
	})
	return info, err
}

// Lstat is [os.Lstat]: a link as the last part is not followed.
func (f FS) Lstat(name string) (info fs.FileInfo, err error) {
	err = f.at(name, func(at string) error {
		info, err = os.Lstat(at)
		return err
	})
	return info, err
}

// Readlink is [os.Readlink].
func (f FS) Readlink(name string) (target string, err error) {
	err = f.at(name, func(at string) error {
		target, err = os.Readlink(at)
		return err
	})
	return target, err
}

// ReadDir lists a directory, sorted by name.
func (f FS) ReadDir(name string) (entries []fs.DirEntry, err error) {
	err = f.follow(name, func(at string) error {
		entries, err = os.ReadDir(at)
		return err
	})
	return entries, err
}

// Open opens a file or directory for reading. It does not wait for a writer of
// a named pipe.
func (f FS) Open(name string) (file *os.File, err error) {
	err = f.follow(name, func(at string) error {
		file, err = os.OpenFile(at, os.O_RDONLY|nonblock, 0)
		return err
	})
	return file, err
}

// Real returns where a name leads in the end, as a name of the node. It is an
// [fs.ErrNotExist] if that is nothing.
func (f FS) Real(name string) (real string, err error) {
	err = f.follow(name, func(at string) error {
		real, err = f.nameOf(at)
		return err
	})
	return real, err
}

// Exists reports whether there is anything of that name, even a link to nothing.
func (f FS) Exists(name string) bool {
	_, err := f.Lstat(name)
	return err == nil
}

// Host is the name of a file of the node on this machine, for what is executed
// or shown to people. Links in it lead where they lead on this machine: see
// [FS.Real] first.
func (f FS) Host(name string) string {
	if f.whole() {
		return name
	}
	return filepath.Join(f.Root, name)
}

// named returns an error that tells the node's name of a file in place of the
// one that it was reached by.
func (f FS) named(name string, err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: failed.Op, Path: f.Host(name), Err: failed.Err}
	}
	if failed, ok := errors.AsType[*os.LinkError](err); ok {
		return &fs.PathError{Op: failed.Op, Path: f.Host(name), Err: failed.Err}
	}
	return err
}

// split cuts a name into a directory and what is in it.
func split(name string) (dir, base string) {
	name = path.Join("/", name)
	return path.Dir(name), path.Base(name)
}
