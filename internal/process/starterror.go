// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/regcred/regcred/internal/executable"
)

// startError explains why the program did not start and how to fix it. The system's
// errors are misleading: a missing interpreter is reported as a missing program.
func (c Command) startError(err error) error {
	if c.Path == "" {
		return errors.New("no executable is set: Path is empty")
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err // the error without the name of the system call
	}
	if c.Dir != "" {
		if info, statErr := os.Stat(c.Dir); statErr != nil || !info.IsDir() {
			return fmt.Errorf("start %q: the working directory %q is not a directory: %w", c.Path, c.Dir, err)
		}
	}
	file := c.Path
	if !filepath.IsAbs(file) {
		file = filepath.Join(c.Dir, file)
	}
	info, statErr := os.Stat(file)
	switch {
	case errors.Is(statErr, fs.ErrNotExist):
		if why := explainMissing(file); why != "" {
			return fmt.Errorf("start %q: %s: %w", c.Path, why, err)
		}
	case statErr != nil:
	case info.IsDir():
		return fmt.Errorf("start %q: is a directory: %w", c.Path, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("start %q: %s: %w", c.Path, explainNotPermitted(file, info.Mode()), err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("start %q: %s: %w", c.Path, explainMissingLoader(file), err)
	case errors.Is(err, errExecFormat):
		return fmt.Errorf("start %q: %s: %w", c.Path, explainWrongFormat(file), err)
	case errors.Is(err, syscall.E2BIG):
		return fmt.Errorf("start %q: the arguments and environment are too long; shorten args and env: %w", c.Path, err)
	case errors.Is(err, errTextBusy):
		return fmt.Errorf("start %q: another process has the file open for writing: %w", c.Path, err)
	}
	return fmt.Errorf("start %q: %w", c.Path, err)
}

// explainMissing returns why a file may be missing, or "" if that is unknown.
func explainMissing(file string) string {
	if target, missing := executable.FollowDanglingLink(file); missing != "" {
		return fmt.Sprintf("dangling symlink to %q; %q does not exist", target, missing)
	}
	if near, fix := executable.FindSimilar(filepath.Dir(file), filepath.Base(file), nil); near != "" {
		return fmt.Sprintf("found %q instead; %s", near, fix)
	}
	return ""
}

// explainNotPermitted explains why executing a file is not permitted.
func explainNotPermitted(file string, mode fs.FileMode) string {
	if mode.Perm()&0o111 == 0 {
		return fmt.Sprintf("not executable (mode %v); run chmod +x", mode)
	}
	if executable.IsOnNoexecMount(file) {
		return "the file system is mounted with noexec; move the plugin or remount the file system with exec"
	}
	if info, err := executable.Read(file); err == nil && info.Format == executable.FormatScript {
		if at, err := os.Stat(info.Interpreter); err == nil && (at.IsDir() || at.Mode().Perm()&0o111 == 0) {
			return fmt.Sprintf("the interpreter %q in the #! line is not executable (mode %v)", info.Interpreter, at.Mode())
		}
	}
	return fmt.Sprintf("the current user is not allowed to execute the file (mode %v); check its owner, "+
		"its parent directories, the noexec mount option and the security policy", mode)
}

// explainMissingLoader names the interpreter or loader that a file needs and that does
// not exist.
func explainMissingLoader(file string) string {
	info, _ := executable.Read(file)
	switch {
	case info.Format == executable.FormatScript && strings.HasSuffix(info.Interpreter, "\r"):
		return fmt.Sprintf("the interpreter in the #! line is %q; convert the line endings from CR LF to LF", info.Interpreter)
	case info.Format == executable.FormatScript:
		return fmt.Sprintf("the interpreter %q in the #! line does not exist", info.Interpreter)
	case info.Interpreter != "":
		return fmt.Sprintf("the dynamic loader %q does not exist; link the plugin statically", info.Interpreter)
	}
	return "the interpreter or dynamic loader does not exist"
}

// explainWrongFormat explains why the system does not recognize a file as an
// executable.
func explainWrongFormat(file string) string {
	info, err := executable.Read(file)
	switch {
	case err != nil:
		return "unknown file format"
	case info.Arch != "" && info.Arch != runtime.GOARCH:
		return fmt.Sprintf("built for another architecture (%s; this machine is %s)", info.Machine, runtime.GOARCH)
	case info.Format == executable.FormatScript:
		return "the interpreter in the #! line cannot be executed"
	case info.FormatError != nil:
		return info.FormatError.Error() + "; install it again"
	}
	if what, fix := info.Format.ExplainMismatch(); what != "" {
		return "the file is " + what + "; " + fix
	}
	return fmt.Sprintf("built for another operating system (%s; this is %s)", info.Format, runtime.GOOS)
}
