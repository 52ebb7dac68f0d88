// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/executable"
	"github.com/regcred/regcred/internal/regularfile"
)

// program is the executable of one provider, as found.
type program struct {
	path string
	near func() (name, cure string) // what is there in place of a file that is not
	info fs.FileInfo
	err  error // it cannot be found or, if info is set, not be read

	executable.Info
	goos   string
	goarch string
	reader reader
}

func binaryRules() []rule[*program] {
	return []rule[*program]{
		{"missing-binary", finding.SeverityError, ruleMissingBinary},
		{"unreadable-binary", finding.SeverityInfo, ruleUnreadableBinary},
		{"not-a-file", finding.SeverityError, ruleNotAFile},
		{"not-executable", finding.SeverityError, ruleNotExecutable},
		{"writable-binary", finding.SeverityWarning, ruleWritableBinary},
		{"not-a-program", finding.SeverityError, ruleNotAProgram},
		{"wrong-platform", finding.SeverityError, ruleWrongPlatform},
		{"crlf-shebang", finding.SeverityError, ruleCRLFShebang},
		{"missing-interpreter", finding.SeverityError, ruleMissingInterpreter},
		{"dynamic-binary", finding.SeverityInfo, ruleDynamicBinary},
	}
}

// inspectBinary looks at name in dir; taken says which other names are in use.
func inspectBinary(dir, name string, by reader, taken func(string) bool) *program {
	b := &program{goos: runtime.GOOS, goarch: runtime.GOARCH, reader: by}
	b.near = func() (string, string) { return executable.Near(dir, name, taken) }
	b.path, b.info, b.err = findBinary(dir, name)
	if b.err == nil && b.info.Mode().IsRegular() {
		b.Info, b.err = executable.Read(b.path)
	}
	return b
}

func ruleMissingBinary(b *program) []remark {
	if b.info != nil || !errors.Is(b.err, fs.ErrNotExist) {
		return nil
	}
	if target, missing := executable.Dangling(b.path); missing != "" {
		return say("install the target, or recreate the link", "%s is a dangling symlink to %s: %s does not exist, so %s", b.path, excerpt.Value(target), missing, b.reader.fails())
	}
	if near, cure := b.near(); near != "" {
		return say(cure, "%s does not exist (but %s exists), so %s", b.path, filepath.Join(filepath.Dir(b.path), near), b.reader.fails())
	}
	return say("install the plugin there, or set --bin-dir", "%s does not exist, so %s", b.path, b.reader.fails())
}

func ruleUnreadableBinary(b *program) []remark {
	if b.err == nil || b.info == nil && errors.Is(b.err, fs.ErrNotExist) {
		return nil
	}
	return say("run this command as root", "%s cannot be inspected: %v", b.path, regularfile.Cause(b.err))
}

func ruleNotAFile(b *program) []remark {
	switch {
	case b.info == nil || b.info.Mode().IsRegular():
		return nil
	case b.info.IsDir():
		return say("", "%s is a directory, so %s", b.path, b.reader.fails())
	}
	return say("", "%s is not a regular file", b.path)
}

func ruleNotExecutable(b *program) []remark {
	if b.info == nil || !b.info.Mode().IsRegular() || !lacksExecBit(b.info) {
		return nil
	}
	return say("chmod 0755", "%s has no execute permission (mode %04o), so %s", b.path, b.info.Mode().Perm(), b.reader.fails())
}

func ruleWritableBinary(b *program) []remark {
	if b.info == nil {
		return nil
	}
	who := writableByOthers(b.path, true)
	if target, err := filepath.EvalSymlinks(b.path); who == "" && err == nil {
		if info, err := os.Lstat(b.path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			who = tamperable(target, trustedOwner)
		}
	}
	if who == "" {
		who = foreignOwner(b.path)
	}
	if who == "" {
		return nil
	}
	return say("change the owner to root, and make it writable only by root", "%s, so other users can change what %s", who, b.reader.runs())
}

// readable reports whether b's content was seen.
func (b *program) readable() bool { return b.err == nil && b.info.Mode().IsRegular() }

func ruleNotAProgram(b *program) []remark {
	switch {
	case !b.readable():
		return nil
	case b.Damage != nil:
		return say("reinstall it", "%s cannot run: %v", b.path, b.Damage)
	case b.Format == executable.MarkedScript:
		return say("save it without a byte order mark", "%s cannot run, because a byte order mark precedes its #! line", b.path)
	case b.Format == executable.Script && b.goos == "windows":
		return say("install a Windows executable", "%s is a #! script, which Windows cannot run", b.path)
	case b.Format == executable.Script && b.Interpreter == "":
		return say("begin the script with #!/bin/sh", "%s has no interpreter after #!, so it cannot run", b.path)
	}
	if what, cure := b.Format.Instead(); what != "" {
		return say(cure, "%s is %s, so starting it fails with an exec format error", b.path, what)
	}
	return nil
}

func ruleWrongPlatform(b *program) []remark {
	native := map[string]executable.Format{"windows": executable.PE, "darwin": executable.MachO}[b.goos]
	if native == "" {
		native = executable.ELF
	}
	system := map[executable.Format]string{executable.PE: "Windows", executable.MachO: "macOS", executable.ELF: "Linux"}[b.Format]
	switch {
	case system == "":
		return nil
	case b.Format != native:
		return say("", "%s is built for %s (%s), but this system is %s", b.path, system, b.Format, b.goos)
	case b.Arch != "" && !runsOn(b.Arch, b.goarch):
		return say("", "%s is built for %s, but this machine is %s", b.path, b.Arch, b.goarch)
	}
	return nil
}

// runsOn reports whether a machine can run programs for another: those whose
// kernels commonly run 32-bit programs too are given the benefit of the doubt.
func runsOn(program, machine string) bool {
	return program == machine ||
		program == "386" && machine == "amd64" ||
		program == "arm" && machine == "arm64"
}

func ruleCRLFShebang(b *program) []remark {
	if b.Format != executable.Script || !strings.HasSuffix(b.Interpreter, "\r") {
		return nil
	}
	return say("save it with LF line endings", "%s cannot run, because its first line ends with a carriage return, which becomes part of the interpreter path", b.path)
}

func ruleMissingInterpreter(b *program) []remark {
	if b.Interpreter == "" || strings.HasSuffix(b.Interpreter, "\r") || b.goos == "windows" || len(ruleWrongPlatform(b)) > 0 {
		return nil
	}
	if _, err := os.Stat(b.Interpreter); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	suggestion := "install a statically linked build"
	if b.Format == executable.Script {
		suggestion = "install the interpreter, or change the #! line"
	}
	return say(suggestion, "%s needs %s, which does not exist here, so starting the plugin fails with \"no such file or directory\"", b.path, excerpt.Value(b.Interpreter))
}

func ruleDynamicBinary(b *program) []remark {
	if b.Format != executable.ELF || b.Interpreter == "" {
		return nil
	}
	return say("", "%s is dynamically linked (%s), so it needs shared libraries on this machine", b.path, excerpt.Value(b.Interpreter))
}
