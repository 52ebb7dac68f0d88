// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package executable

import (
	"debug/elf"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
)

// TestReadPipe has no writer: to open the pipe would wait for ever.
func TestReadPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(pipe); err == nil {
		t.Error("a pipe has been read")
	}
}

// TestReadSelf reads what the Go tool made, and a shell.
func TestReadSelf(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{self, "/bin/sh"} {
		f, err := elf.Open(path)
		if err != nil {
			t.Skip(err)
		}
		defer f.Close()
		loader := ""
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP {
				b := make([]byte, p.Filesz)
				if _, err := p.ReadAt(b, 0); err != nil {
					t.Fatal(err)
				}
				loader = strings.TrimSuffix(string(b), "\x00")
			}
		}
		got, err := Read(path)
		want := Info{Format: FormatELF, Machine: f.Machine.String(), Arch: runtime.GOARCH, Interpreter: loader}
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", path, got, err, want)
		}
	}
}

// TestReadCloses verifies that the reader closes the file, rather than the garbage collector.
func TestReadCloses(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "p")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err != nil {
		t.Fatal(err)
	}
	open, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range open {
		if target, err := os.Readlink(fd); err == nil && target == path {
			t.Errorf("%s is still open as %s", path, fd)
		}
	}
}
