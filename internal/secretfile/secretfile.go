// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package secretfile reads the files in which a node keeps passwords: regular
// files of a bounded size, and files that belong together from one moment.
//
//	files, err := secretfile.Read("/etc/registry/username", "/etc/registry/password")
//
// Errors name the file and never hold any of its content.
package secretfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"

	"github.com/regcred/regcred/internal/regularfile"
)

// MaxSize bounds a file in bytes. A Kubernetes secret is no larger.
const MaxSize = 1 << 20

// File is the content of a file.
type File struct {
	Path string
	Data []byte

	// Exposed says that others than the file's owner and group may read or
	// write it. It is always false on Windows, which has no such mode.
	Exposed bool

	// Writable says that others may write it, which is bad of a file without a
	// secret too if it says whom to trust. It is always false on Windows.
	Writable bool
}

// Format writes the path of f, whatever the verb: its data is secret.
func (f File) Format(s fmt.State, _ rune) { io.WriteString(s, f.Path) }

// tries is how often files are read anew because they were replaced meanwhile.
const tries = 5

// errReplaced says that a path has come to mean another file.
var errReplaced = errors.New("files: they were replaced again and again meanwhile; replace them together, and less often")

// Read reads files that belong together. If one is replaced meanwhile, all
// are read again: the names of a mounted secret all change at once, with one
// symbolic link, to files that were never there before. A file that is written
// in place is read as it stands; a name that comes to mean an earlier file
// again is not noticed.
//
// It is an [fs.ErrNotExist] if there is no such file. Symbolic links are
// followed; what is no regular file in the end is refused.
func Read(paths ...string) ([]File, error) {
	for try := 1; ; try++ {
		files, err := readOnce(paths)
		again := errors.Is(err, errReplaced) || errors.Is(err, fs.ErrNotExist)
		if err == nil || !again || try == tries {
			return files, err
		}
	}
}

// readOnce opens all files, then makes sure that all paths still mean them.
func readOnce(paths []string) ([]File, error) {
	var opened []*os.File
	defer func() {
		for _, f := range opened {
			f.Close()
		}
	}()
	for _, path := range paths {
		f, err := regularfile.Open(path)
		if err != nil {
			return nil, explain(path, err)
		}
		opened = append(opened, f)
	}
	files := make([]File, len(paths))
	for i, f := range opened {
		info, err := f.Stat()
		if err != nil {
			return nil, explain(paths[i], err)
		}
		// As long as f is open, no other file has its number.
		if now, err := os.Stat(paths[i]); err != nil || !os.SameFile(info, now) {
			return nil, errReplaced
		}
		data, err := regularfile.ReadAll(f, MaxSize)
		if err != nil {
			return nil, explain(paths[i], err)
		}
		files[i] = File{Path: paths[i], Data: data, Exposed: others(info.Mode(), 0o006), Writable: others(info.Mode(), 0o002)}
	}
	return files, nil
}

// explain leaves out the name of the system call.
func explain(path string, err error) error {
	err = regularfile.Cause(err)
	refused, irregular := errors.AsType[*regularfile.NotRegularError](err)
	_, large := errors.AsType[*regularfile.TooLargeError](err)
	switch {
	case irregular:
		return fmt.Errorf("%q is %s; name a regular file", path, refused.Kind())
	case large:
		return fmt.Errorf("%q: %w: is it the right file?", path, err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%q: there is no such file: %w", path, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%q: this user may not read it: %w", path, err)
	}
	return fmt.Errorf("%q: %w", path, err)
}

// others reports whether others have one of these rights, which let a secret
// out, or in.
func others(m fs.FileMode, rights fs.FileMode) bool {
	return runtime.GOOS != "windows" && m.Perm()&rights != 0
}
