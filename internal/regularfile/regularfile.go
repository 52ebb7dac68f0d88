// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package regularfile reads files that somebody else named or wrote: regular
// ones, of a bounded size. A named pipe in place of a file does not make the
// reader wait for a writer, and /dev/zero does not fill its memory.
//
//	data, err := regularfile.Read(ctx, path, 1<<20)
//
// Errors are of type [*fs.PathError] and say nothing of the content; [Cause]
// is for who names the file in other words. In them stand a
// [*NotRegularError], a [*TooLargeError], or what the system says.
//
// Symbolic links are followed. Whose the file is, and whether it stays the
// same while it is read, is not looked at: see package secretfile.
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

// NotRegularError says that a name leads to something else than a regular file.
type NotRegularError struct {
	Mode fs.FileMode // with its type
}

// Error says what it is.
func (e *NotRegularError) Error() string { return "is " + e.Kind() + ", not a regular file" }

// Kind says what it is, e.g. "a named pipe".
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

// TooLargeError says that a file has more than may be read of it.
type TooLargeError struct {
	Max int64 // bytes
}

// Error says how large the file may be.
func (e *TooLargeError) Error() string { return fmt.Sprintf("larger than %d bytes", e.Max) }

// Read returns what a file has, which is at most max bytes.
//
// It returns when ctx ends, with its cause, even if the file system does not
// answer; the goroutine that asks it is then left behind.
func Read(ctx context.Context, path string, max int64) ([]byte, error) {
	return read(ctx, system{}, path, max)
}

// ReadIn is [Read] of a file below a directory, whose links do not lead out of it.
func ReadIn(ctx context.Context, root *os.Root, name string, max int64) ([]byte, error) {
	return read(ctx, root, name, max)
}

// Open opens a file for reading. It does not wait for anything but the disk.
func Open(path string) (*os.File, error) { return open(system{}, path) }

// OpenIn is [Open] of a file below a directory, whose links do not lead out of it.
func OpenIn(root *os.Root, name string) (*os.File, error) { return open(root, name) }

// ReadAll reads the rest of a file that [Open] opened, which is at most max bytes.
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

// Cause takes operation and path from an error whose reader is told the path
// anyway. It returns any other error as it is.
func Cause(err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return failed.Err
	}
	return err
}

// opener is a [*os.Root] or the whole system.
type opener interface {
	Stat(name string) (fs.FileInfo, error)
	OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error)
}

type system struct{}

func (system) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }
func (system) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, flag, perm)
}

func open(in opener, name string) (*os.File, error) {
	// Before, since to open a device may start something (/dev/watchdog), and
	// to open a socket fails in other words.
	info, err := in.Stat(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: Cause(err)} // that is what fails for who asked
	}
	if err := check(name, info); err != nil {
		return nil, err
	}
	f, err := in.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	// And after, since the name may have come to mean something else.
	if info, err = f.Stat(); err == nil {
		err = check(name, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func check(name string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return &fs.PathError{Op: "read", Path: name, Err: &NotRegularError{info.Mode()}}
}

func read(ctx context.Context, in opener, name string, max int64) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	whole := func() (r result) {
		f, err := open(in, name)
		if err != nil {
			return result{err: err}
		}
		defer f.Close()
		r.data, r.err = ReadAll(f, max)
		return r
	}
	if ctx.Done() == nil {
		r := whole()
		return r.data, r.err
	}
	done := make(chan result, 1)
	go func() { done <- whole() }()
	select {
	case r := <-done:
		return r.data, r.err
	case <-ctx.Done():
		return nil, &fs.PathError{Op: "read", Path: name, Err: context.Cause(ctx)}
	}
}
