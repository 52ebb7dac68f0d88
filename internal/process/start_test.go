// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package process

import (
	"context"
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testelf"
)

func TestStartErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		content string
		mode    fs.FileMode
		message string
		is      error
		linux   bool // only for Linux, because other systems have other messages
	}{
		"empty file":          {"", 0o755, "the file is empty; install it again", syscall.ENOEXEC, true},
		"not executable":      {"#!/bin/sh\n", 0o644, "not executable (mode -rw-r--r--); run chmod +x: permission denied", fs.ErrPermission, false},
		"missing interpreter": {"#!/nope -x\n", 0o755, `the interpreter "/nope" in the #! line does not exist: no such file`, fs.ErrNotExist, false},
		"CR LF":               {"#!/bin/sh\r\nexit 0\r\n", 0o755, `the interpreter in the #! line is "/bin/sh\r"; convert the line endings`, fs.ErrNotExist, false},
		"no #! line":          {"echo hello\n", 0o755, "the file is text without a #! line; if it is a script, add #!/bin/sh as its first line; otherwise install the program again", syscall.ENOEXEC, true},
		"error page":          {"<!DOCTYPE html>\n<title>Not Found</title>", 0o755, "the file is a web page or server error (HTML, XML, JSON or \"not found\") saved instead of a program; check the URL", syscall.ENOEXEC, true},
		"archive":             {"\x1f\x8b\x08\x00", 0o755, "the file is an archive or a compressed file; extract it", syscall.ENOEXEC, true},
		"damaged":             {"\x7fELF\x02", 0o755, "the ELF header is truncated or damaged; install it again", syscall.ENOEXEC, true},
		"for Windows":         {"MZ\x90\x00", 0o755, "built for another operating system (PE; this is linux)", syscall.ENOEXEC, true},
		"interpreter":         {"#!/etc/passwd\n", 0o755, `the interpreter "/etc/passwd" in the #! line is not executable (mode -rw-r--r--)`, fs.ErrPermission, true},
		"missing loader":      {elfFile(t, "/nope/ld.so.2", 0), 0o755, `the dynamic loader "/nope/ld.so.2" does not exist`, fs.ErrNotExist, true},
		"wrong architecture":  {elfFile(t, "", elf.EM_S390), 0o755, "built for another architecture (EM_S390; this machine is " + runtime.GOARCH, syscall.ENOEXEC, true},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.linux && runtime.GOOS != "linux" {
				t.Skip("only Linux starts programs by these rules")
			}
			c := testCommand(t, "say")
			c.Path = filepath.Join(t.TempDir(), "plug")
			must.Do(t, os.WriteFile(c.Path, []byte(tt.content), tt.mode))
			checkStart(t, c, tt.message, tt.is)
		})
	}
}

func TestStartErrorsOfPlaces(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	must.Do(t, os.Symlink("nowhere", link))
	c := testCommand(t, "say")
	for _, tt := range []struct {
		name, path, dir, message string
		is                       error
	}{
		{"missing", filepath.Join(dir, "nope"), "", "no such file or directory", fs.ErrNotExist},
		{"directory", dir, "", "is a directory", fs.ErrPermission},
		{"link to nothing", link, "", `dangling symlink to "nowhere"; "` + filepath.Join(dir, "nowhere") + `" does not exist`, fs.ErrNotExist},
		{"working directory", c.Path, filepath.Join(dir, "nope"), "the working directory", fs.ErrNotExist},
		{"no path", "", "", "Path is empty", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c.Path, c.Dir = tt.path, tt.dir
			checkStart(t, c, tt.message, tt.is)
		})
	}
}

func checkStart(t *testing.T, c Command, message string, is error) {
	t.Helper()
	x, err := c.Run(t.Context(), strings.NewReader("request"))
	checkRun(t, x, err, ReasonNotStarted)
	if !strings.Contains(err.Error(), message) {
		t.Errorf("got  %v\nwant …%s…", err, message)
	}
	if is != nil && !errors.Is(err, is) {
		t.Errorf("got %v, want one that is %v", err, is)
	}
	if x.ExitCode() != -1 || !x.Started.IsZero() || x.Duration <= 0 {
		t.Errorf("got exit code %d, started %v, duration %v", x.ExitCode(), x.Started, x.Duration)
	}
}

// elfFile writes an ELF file that needs a dynamic loader, and returns its path.
func elfFile(t *testing.T, loader string, machine elf.Machine) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		return ""
	}
	self := must.Get(elf.Open("/proc/self/exe"))(t)
	defer self.Close()
	if machine == 0 {
		machine = self.Machine
	}
	return string(testelf.BuildFile(t, elf.ELFCLASS64, self.ByteOrder, machine, loader))
}

// countingContext is a context whose Err method calls f with the number of calls so far.
type countingContext struct {
	context.Context
	n int
	f func(n int)
}

func (c *countingContext) Err() error {
	c.n++
	c.f(c.n)
	return c.Context.Err()
}

func TestTextFileBusy(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux starts programs by these rules")
	}
	c := testCommand(t, "say", testStdout+"="+programOutput)
	c.Path = copySelf(t, "plug")
	open := func() *os.File {
		return must.Get(os.OpenFile(c.Path, os.O_RDWR, 0))(t)
	}

	writer := open()
	attempts := 0
	ctx := &countingContext{t.Context(), 0, func(n int) {
		attempts = n
		if n == 3 {
			writer.Close()
		}
	}}
	x, err := c.Run(ctx, strings.NewReader("request"))
	checkRun(t, x, err, 0)
	if attempts != 3 {
		t.Errorf("started at attempt %d, want 3", attempts)
	}

	writer = open()
	defer writer.Close()
	checkStart(t, c, "another process has the file open for writing: text file busy", syscall.ETXTBSY)

	canceled, cancel := context.WithCancel(t.Context())
	x, err = c.Run(&countingContext{canceled, 0, func(n int) {
		if n == 2 {
			cancel()
		}
	}}, strings.NewReader("request"))
	checkRun(t, x, err, ReasonCanceled)
	deadline := make(chan time.Time, 1)
	deadline <- time.Time{}
	x, err = c.run(runLimits{t.Context(), deadline}, strings.NewReader("request"))
	checkRun(t, x, err, ReasonTimedOut)
}

func TestExplainNotPermitted(t *testing.T) {
	for mode, chmod := range map[fs.FileMode]bool{0o644: true, 0o100: false, 0o010: false, 0o001: false, 0: true} {
		if got := explainNotPermitted("", mode); strings.Contains(got, "chmod +x") != chmod {
			t.Errorf("mode %v: %s", mode, got)
		}
	}
}
