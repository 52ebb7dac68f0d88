// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package regularfile reads regular files of limited size at paths that other users may
// control. A named pipe without a writer does not block it, and /dev/zero does not exhaust the
// memory.
//
//	data, err := regularfile.Read(ctx, path, 1<<20)
//
// Errors are of type [*fs.PathError] and contain no content of the file. They wrap a
// [*NotRegularError], a [*TooLargeError] or a system error.
//
// Symlinks are followed. The package does not check the file's owner, or whether the file
// changes while it is read. For secrets, use package secretfile.
package regularfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ErrLimit matches errors about limits that only regcred has. The kubelet accepts the same file or
// response.
var ErrLimit = errors.New("exceeds a limit of regcred")

// LimitError reports that a limit of regcred is exceeded. It matches [ErrLimit].
type LimitError struct{ Msg string }

func (e *LimitError) Error() string { return e.Msg }

// Is reports whether target is ErrLimit.
func (e *LimitError) Is(target error) bool { return target == ErrLimit }

// NotRegularError reports that a path is not a regular file.
type NotRegularError struct {
	Mode fs.FileMode // mode of the file, including the type bits
}

func (e *NotRegularError) Error() string { return "is " + e.Kind() + ", not a regular file" }

// Is reports whether target is ErrLimit, because the kubelet can read pipes and devices.
func (e *NotRegularError) Is(target error) bool { return target == ErrLimit && !e.Mode.IsDir() }

// Kind returns a description of the file type, such as "a named pipe".
func (e *NotRegularError) Kind() string {
	switch {
	case e.Mode.IsDir():
		return "a directory"
	case e.Mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case e.Mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// TooLargeError reports that a file exceeds the size limit.
type TooLargeError struct {
	Max int64 // size limit in bytes
}

func (e *TooLargeError) Error() string { return fmt.Sprintf("larger than %d bytes", e.Max) }

// Is reports whether target is ErrLimit.
func (e *TooLargeError) Is(target error) bool { return target == ErrLimit }

// Read returns the content of a file. It fails if the file has more than max bytes.
//
// If ctx ends, Read returns the context's cause, even if the file system hangs. In that case,
// the goroutine that reads the file continues.
func Read(ctx context.Context, path string, max int64) ([]byte, error) {
	return read(ctx, osFS{}, path, max)
}

// ReadIn is like [Read], but reads a file in root. Symlinks cannot lead out of root.
func ReadIn(ctx context.Context, root *os.Root, name string, max int64) ([]byte, error) {
	return read(ctx, root, name, max)
}

// Open opens a regular file for reading. It does not block on named pipes or devices.
func Open(path string) (*os.File, error) { return open(osFS{}, path) }

// OpenIn is like [Open], but opens a file in root. Symlinks cannot lead out of root.
func OpenIn(root *os.Root, name string) (*os.File, error) { return open(root, name) }

// ReadAll reads the rest of an open file. It fails if there are more than max bytes.
func ReadAll(f *os.File, max int64) (data []byte, err error) {
	var buf bytes.Buffer
	if info, err := f.Stat(); err == nil {
		buf.Grow(int(min(info.Size(), max)) + bytes.MinRead)
	}
	_, err = buf.ReadFrom(io.LimitReader(f, max+1))
	if data = buf.Bytes(); err == nil && int64(len(data)) > max {
		data, err = nil, &fs.PathError{Op: "read", Path: f.Name(), Err: &TooLargeError{max}}
	}
	return data, err
}

// BareError returns the cause of an [*fs.PathError], for messages that already contain the
// path. It returns other errors unchanged.
func BareError(err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return failed.Err
	}
	return err
}

// fileSystem provides files, either all files or only those in an [*os.Root].
type fileSystem interface {
	Stat(name string) (fs.FileInfo, error)
	OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error)
}

type osFS struct{}

func (osFS) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }
func (osFS) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, flag, perm)
}

func open(in fileSystem, name string) (*os.File, error) {
	// Check before opening. Opening a device can have side effects (/dev/watchdog), and opening
	// a socket fails with a different error.
	info, err := in.Stat(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: BareError(err)}
	}
	if err := checkRegular(name, info); err != nil {
		return nil, err
	}
	f, err := in.OpenFile(name, os.O_RDONLY|nonblockFlag, 0)
	if err != nil {
		return nil, err
	}
	// Check again, because the path may now refer to a different file.
	if info, err = f.Stat(); err == nil {
		err = checkRegular(name, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func checkRegular(name string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return &fs.PathError{Op: "read", Path: name, Err: &NotRegularError{info.Mode()}}
}

func read(ctx context.Context, in fileSystem, name string, max int64) ([]byte, error) {
	var data []byte
	var err error
	whole := func() {
		var f *os.File
		if f, err = open(in, name); err == nil {
			defer f.Close()
			data, err = ReadAll(f, max)
		}
	}
	if ctx.Done() == nil {
		whole()
		return data, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		whole()
	}()
	select {
	case <-done:
		return data, err
	case <-ctx.Done():
		return nil, &fs.PathError{Op: "read", Path: name, Err: context.Cause(ctx)}
	}
}

// WithContext returns a reader that reads from r and fails after ctx has ended.
func WithContext(ctx context.Context, r io.Reader) io.Reader { return contextReader{ctx, r} }

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
