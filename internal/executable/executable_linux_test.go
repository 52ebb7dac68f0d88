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

	"github.com/regcred/regcred/internal/must"
)

// TestReadPipe verifies that Read does not block on a named pipe without a writer.
func TestReadPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must.Do(t, syscall.Mkfifo(pipe, 0o700))
	if _, err := Read(pipe); err == nil {
		t.Error("a pipe has been read")
	}
}

// TestReadSelf compares the results for the test binary and /bin/sh with debug/elf.
func TestReadSelf(t *testing.T) {
	self := must.Get(os.Executable())(t)
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
				must.Get(p.ReadAt(b, 0))(t)
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

// TestReadCloses verifies that Read closes the file itself. It disables the garbage collector,
// which would also close the file.
func TestReadCloses(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	path := filepath.Join(dir, "p")
	must.Do(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700))
	must.Get(Read(path))(t)
	open := must.Get(filepath.Glob("/proc/self/fd/*"))(t)
	for _, fd := range open {
		if target, err := os.Readlink(fd); err == nil && target == path {
			t.Errorf("%s is still open as %s", path, fd)
		}
	}
}
