// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package hostrun

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// programOutput is the memory or file to which a program writes its output.
type programOutput struct {
	file     *os.File
	maxBytes int64
	copied   int64
}

// newOutput creates an output in memory. The kernel limits its size to the given number
// of bytes.
func newOutput(most int64) (*programOutput, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("regcred", flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("regcred", flags)
	}
	if err != nil {
		return nil, fmt.Errorf("create a buffer for the output: %w", os.NewSyscallError("memfd_create", err))
	}
	o := &programOutput{file: os.NewFile(uintptr(fd), "output"), maxBytes: most}
	err = o.file.Truncate(most)
	if err == nil {
		_, err = unix.FcntlInt(o.file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_GROW|unix.F_SEAL_SHRINK)
	}
	if err != nil {
		o.close()
		return nil, fmt.Errorf("create a buffer for the output: %w", err)
	}
	return o, nil
}

// newFileOutput creates an output in a file. At most the given number of bytes is read
// from it.
func newFileOutput(name string, most int64) (*programOutput, error) {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("create the output file: %w", err)
	}
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) // an earlier program may still write to the old file
	if err != nil {
		return nil, fmt.Errorf("create the output file: %w", err)
	}
	return &programOutput{file: file, maxBytes: most}, nil
}

func (o *programOutput) fd() int { return int(o.file.Fd()) }

func (o *programOutput) close() { _ = o.file.Close() }

// bytesWritten returns how much output was written. It works because the program shares
// this process's file offset.
func (o *programOutput) bytesWritten() (int64, error) { return o.file.Seek(0, io.SeekCurrent) }

// isFull reports whether output may have been discarded.
func (o *programOutput) isFull() bool {
	n, err := o.bytesWritten()
	return err != nil || n >= o.maxBytes
}

// copyTo copies the output written since the last call.
func (o *programOutput) copyTo(w io.Writer) error {
	end, err := o.bytesWritten()
	end = min(end, o.maxBytes)
	if err != nil || end <= o.copied {
		return err
	}
	n, err := io.Copy(w, io.NewSectionReader(o.file, o.copied, end-o.copied))
	o.copied += n
	return err
}
