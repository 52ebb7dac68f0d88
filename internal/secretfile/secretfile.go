// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package secretfile reads files with passwords: regular files of a bounded
// size, and consistent sets of files.
//
//	password, err := secretfile.ReadSecret("/etc/registry/password")
//
// Errors name the file and never contain its content.
package secretfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"

	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/textfmt"
)

// MaxSize limits a file's size in bytes. It is the maximum size of a Kubernetes Secret.
const MaxSize = 1 << 20

// File is a file with its contents.
type File struct {
	Path string
	Data []byte

	// Exposed reports whether users other than the file's owner and group can read or
	// write the file. Writable reports whether they can write it. Both are always false
	// on Windows, which has no such modes.
	Exposed, Writable bool
}

// CheckNotExposed returns an error if the file is [File.Exposed].
func (f File) CheckNotExposed() error {
	if f.Exposed {
		return fmt.Errorf("%q: other users can read or change it; run chmod 600 %s", f.Path, textfmt.QuoteShellPath(f.Path))
	}
	return nil
}

// CheckNotWritable returns an error if the file is [File.Writable].
func (f File) CheckNotWritable() error {
	if f.Writable {
		return fmt.Errorf("%q: other users can change it; run chmod o-w %s", f.Path, textfmt.QuoteShellPath(f.Path))
	}
	return nil
}

// ReadSecret returns the contents of a file that other users can neither read nor change.
func ReadSecret(path string) ([]byte, error) { return readChecked(path, File.CheckNotExposed) }

// ReadTrusted returns the contents of a file that other users cannot change.
func ReadTrusted(path string) ([]byte, error) { return readChecked(path, File.CheckNotWritable) }

func readChecked(path string, check func(File) error) ([]byte, error) {
	files, err := Read(path)
	if err == nil {
		err = check(files[0])
	}
	if err != nil {
		return nil, err
	}
	return files[0].Data, nil
}

// Format prints only the path of f, because its data is secret.
func (f File) Format(s fmt.State, _ rune) { io.WriteString(s, f.Path) }

// maxReadAttempts bounds how often files are read again because they were replaced.
const maxReadAttempts = 5

// errReplaced is returned if a path was replaced by another file during the read.
var errReplaced = errors.New("files: replaced repeatedly while being read; replace them together and less often")

// Read reads a consistent set of files. If a file is replaced during the read, Read reads
// all files again. A mounted Secret replaces all of its files at once by changing one
// symbolic link. Read does not detect a file that is changed in place, or a path that was
// replaced and leads to the first file again.
//
// Read follows symbolic links and rejects files that are not regular. If a file does not
// exist, the error matches [fs.ErrNotExist].
func Read(paths ...string) ([]File, error) {
	for try := 1; ; try++ {
		files, err := readOnce(paths)
		again := errors.Is(err, errReplaced) || errors.Is(err, fs.ErrNotExist)
		if err == nil || !again || try == maxReadAttempts {
			return files, err
		}
	}
}

// readOnce reads the files once. It opens all files before it reads any, and checks that
// the paths still lead to the opened files.
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
			return nil, simplifyError(path, err)
		}
		opened = append(opened, f)
	}
	files := make([]File, len(paths))
	for i, f := range opened {
		info, err := f.Stat()
		if err != nil {
			return nil, simplifyError(paths[i], err)
		}
		// While f is open, no other file can have its inode number.
		if now, err := os.Stat(paths[i]); err != nil || !os.SameFile(info, now) {
			return nil, errReplaced
		}
		data, err := regularfile.ReadAll(f, MaxSize)
		if err != nil {
			return nil, simplifyError(paths[i], err)
		}
		files[i] = File{Path: paths[i], Data: data, Exposed: othersHavePermission(0o006, info.Mode()), Writable: othersHavePermission(0o002, info.Mode())}
	}
	return files, nil
}

// simplifyError removes the name of the system call from an error.
func simplifyError(path string, err error) error {
	err = regularfile.BareError(err)
	if _, large := errors.AsType[*regularfile.TooLargeError](err); large {
		return fmt.Errorf("%q: %w; check that this is the right file", path, err)
	}
	return fmt.Errorf("%q: %w", path, err)
}

// othersHavePermission reports whether other users have any of the permissions.
func othersHavePermission(rights, mode fs.FileMode) bool {
	return runtime.GOOS != "windows" && mode.Perm()&rights != 0
}
