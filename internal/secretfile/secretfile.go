// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package secretfile reads the files in which a node keeps passwords: regular
// files of a bounded size, and files that belong together from one moment.
//
//	files, err := secretfile.Read("/etc/registry/password")
//	if err == nil {
//		err = files[0].Private()
//	}
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
	// write it, and Writable that they may write it. Both are always false on
	// Windows, which has no such mode.
	Exposed, Writable bool
}

// Private refuses a file that is [File.Exposed]: what is in it is no secret,
// or not its owner's.
func (f File) Private() error {
	if f.Exposed {
		return fmt.Errorf("%q: other users can read or change it; run chmod 600 %q", f.Path, f.Path)
	}
	return nil
}

// Unwritable refuses a file that is [File.Writable]: others decide what is in it.
func (f File) Unwritable() error {
	if f.Writable {
		return fmt.Errorf("%q: other users can change it; run chmod o-w %q", f.Path, f.Path)
	}
	return nil
}

// Format writes the path of f, whatever the verb: its data is secret.
func (f File) Format(s fmt.State, _ rune) { io.WriteString(s, f.Path) }

// tries is how often files are read anew because they were replaced meanwhile.
const tries = 5

// errReplaced says that a path has come to mean another file.
var errReplaced = errors.New("files: replaced repeatedly while being read; replace them together and less often")

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
		files[i] = File{Path: paths[i], Data: data, Exposed: othersMay(0o006, info.Mode()), Writable: othersMay(0o002, info.Mode())}
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
		return fmt.Errorf("%q: is %s, not a regular file", path, refused.Kind())
	case large:
		return fmt.Errorf("%q: %w; check that this is the right file", path, err)
	}
	return fmt.Errorf("%q: %w", path, err)
}

// othersMay reports whether others have one of the rights.
func othersMay(rights, mode fs.FileMode) bool {
	return runtime.GOOS != "windows" && mode.Perm()&rights != 0
}
