// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/excerpt"
)

// binDirectory is the directory of the executables, as found.
type binDirectory struct {
	config  *config.Config
	path    string
	err     error    // it cannot be used
	helpers []string // docker credential helpers in it that no provider names
}

func binDirRules() []rule[*binDirectory] {
	return []rule[*binDirectory]{
		{"missing-bin-dir", SeverityError, ruleMissingBinDir},
		{"writable-bin-dir", SeverityWarning, ruleWritableBinDir},
		{"noexec-mount", SeverityError, ruleNoexecMount},
		{"docker-helper-in-bin-dir", SeverityInfo, ruleDockerHelperInBinDir},
	}
}

// maxBinDirEntries bounds how much of a directory is read.
const maxBinDirEntries = 4096

func inspectBinDir(c *config.Config, path string) *binDirectory {
	d := &binDirectory{config: c, path: path}
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = errors.New("not a directory")
	}
	if d.err = err; err != nil {
		return d
	}
	f, err := os.Open(path)
	if err != nil {
		return d // a directory that may not be listed can still be used
	}
	defer f.Close()
	entries, _ := f.ReadDir(maxBinDirEntries)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "docker-credential-") && !names(c, e.Name()) {
			d.helpers = append(d.helpers, e.Name())
		}
	}
	return d
}

// names reports whether c has a provider of that name.
func names(c *config.Config, name string) bool {
	for i := range c.Providers {
		if c.Providers[i].Name == name {
			return true
		}
	}
	return false
}

func ruleMissingBinDir(d *binDirectory) []remark {
	if d.err == nil {
		return nil
	}
	return inFile(d.path, 0, "", "the directory of the plugins cannot be used (%v), so %s", cause(d.err), readerOfAny(d.config).fails())
}

// cause is an error without the path, which the finding has already.
func cause(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

func ruleWritableBinDir(d *binDirectory) []remark {
	if d.err != nil {
		return nil
	}
	who := tamperable(d.path, trustedOwner)
	if who == "" {
		who = writableByOthers(d.path, false)
	}
	if who == "" {
		return nil
	}
	return inFile(d.path, 0, "make the directory and those above it writable by root alone", "%s, so that others decide what %s", who, readerOfAny(d.config).runs())
}

func ruleNoexecMount(d *binDirectory) []remark {
	if d.err != nil || !mountedNoexec(d.path) {
		return nil
	}
	return inFile(d.path, 0, "put the plugins on a file system mounted with exec", "the directory is on a file system mounted with noexec, so no plugin in it can run")
}

func ruleDockerHelperInBinDir(d *binDirectory) (rs []remark) {
	for _, name := range d.helpers {
		rs = append(rs, inFile(d.path, 0, "", "%q is a docker credential helper, which a kubelet cannot use; no provider names it", excerpt.Value(name))...)
	}
	return rs
}

// Binary returns what is wrong with one executable on this machine: the
// findings that [BinDir] has about a provider's. File is path.
func Binary(path string) []Finding {
	var findings []Finding
	b := inspectBinary(filepath.Dir(path), filepath.Base(path), theKubelet)
	for _, r := range binaryRules() {
		for _, m := range r.check(b) {
			findings = append(findings, Finding{Rule: r.name, Severity: r.severity, File: path, Message: m.message, Suggestion: m.suggestion})
		}
	}
	return findings
}

// executable is that of one provider, as found.
type executable struct {
	path string
	info fs.FileInfo
	err  error // it cannot be found or, if info is set, not be read

	head    []byte // its first bytes
	format  string // by head: "ELF", "Mach-O", "PE", "script"; "" for none of them
	elf     *elfFile
	elfErr  error
	interp  string // of a script or a dynamically linked program
	goos    string
	machine string // GOARCH
	reader  reader
}

func binaryRules() []rule[*executable] {
	return []rule[*executable]{
		{"missing-binary", SeverityError, ruleMissingBinary},
		{"unreadable-binary", SeverityInfo, ruleUnreadableBinary},
		{"not-a-file", SeverityError, ruleNotAFile},
		{"not-executable", SeverityError, ruleNotExecutable},
		{"writable-binary", SeverityWarning, ruleWritableBinary},
		{"not-a-program", SeverityError, ruleNotAProgram},
		{"wrong-platform", SeverityError, ruleWrongPlatform},
		{"crlf-shebang", SeverityError, ruleCRLFShebang},
		{"missing-interpreter", SeverityError, ruleMissingInterpreter},
		{"dynamic-binary", SeverityInfo, ruleDynamicBinary},
	}
}

// headSize is how much of an executable is read: as much of a first line as
// Linux looks at.
const headSize = 256

func inspectBinary(dir, name string, by reader) *executable {
	b := &executable{goos: runtime.GOOS, machine: runtime.GOARCH, reader: by}
	b.path, b.info, b.err = findBinary(dir, name)
	if b.err != nil || !b.info.Mode().IsRegular() {
		return b
	}
	f, err := os.Open(b.path)
	if err != nil {
		b.err = err
		return b
	}
	defer f.Close()
	b.read(f)
	return b
}

// read recognises the program by its first bytes.
func (b *executable) read(r io.ReaderAt) {
	b.head = make([]byte, headSize)
	n, err := r.ReadAt(b.head, 0)
	if b.head = b.head[:n]; err != nil && !errors.Is(err, io.EOF) {
		b.err = err
		return
	}
	b.format = formatOf(b.head)
	switch b.format {
	case "script":
		b.interp = shebang(b.head)
	case "ELF":
		if b.elf, b.elfErr = readELF(r); b.elf != nil {
			b.interp = b.elf.interp
		}
	}
}

func formatOf(head []byte) string {
	for _, magic := range []struct{ bytes, format string }{
		{"\x7fELF", "ELF"},
		{"#!", "script"},
		{"MZ", "PE"},
		{"\xfe\xed\xfa\xce", "Mach-O"}, {"\xce\xfa\xed\xfe", "Mach-O"},
		{"\xfe\xed\xfa\xcf", "Mach-O"}, {"\xcf\xfa\xed\xfe", "Mach-O"},
		{"\xca\xfe\xba\xbe", "Mach-O"},
	} {
		if bytes.HasPrefix(head, []byte(magic.bytes)) {
			return magic.format
		}
	}
	return ""
}

// shebang returns the interpreter of a script as Linux reads it: the first
// word after #!, a carriage return included.
func shebang(head []byte) string {
	line, _, _ := bytes.Cut(head[len("#!"):], []byte("\n"))
	fields := strings.FieldsFunc(string(line), func(r rune) bool { return r == ' ' || r == '\t' || r == 0 })
	if len(fields) == 0 {
		return ""
	}
	return fields[0]
}

func ruleMissingBinary(b *executable) []remark {
	if b.info != nil || !errors.Is(b.err, fs.ErrNotExist) {
		return nil
	}
	if target, err := os.Readlink(b.path); err == nil {
		return say("", "%s is a symbolic link to %s, which does not exist, so %s", b.path, target, b.reader.fails())
	}
	return say("", "%s does not exist, so %s", b.path, b.reader.fails())
}

func ruleUnreadableBinary(b *executable) []remark {
	if b.err == nil || b.info == nil && errors.Is(b.err, fs.ErrNotExist) {
		return nil
	}
	return say("run this as root", "%s cannot be examined: %v", b.path, cause(b.err))
}

func ruleNotAFile(b *executable) []remark {
	switch {
	case b.info == nil || b.info.Mode().IsRegular():
		return nil
	case b.info.IsDir():
		return say("", "%s is a directory, so %s", b.path, b.reader.fails())
	}
	return say("", "%s is not a regular file", b.path)
}

func ruleNotExecutable(b *executable) []remark {
	if b.info == nil || !b.info.Mode().IsRegular() || !lacksExecBit(b.info) {
		return nil
	}
	return say("chmod 0755", "%s has no execute permission (mode %04o), so %s", b.path, b.info.Mode().Perm(), b.reader.fails())
}

func ruleWritableBinary(b *executable) []remark {
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
	return say("make it belong to root and writable by root alone", "%s, so that others decide what %s", who, b.reader.runs())
}

// readable reports whether b's content was seen.
func (b *executable) readable() bool { return b.err == nil && b.info.Mode().IsRegular() }

func ruleNotAProgram(b *executable) []remark {
	switch {
	case !b.readable():
		return nil
	case len(b.head) == 0:
		return say("", "%s is empty", b.path)
	case b.elfErr != nil:
		return say("install it again", "%s cannot run: %v", b.path, b.elfErr)
	case bytes.HasPrefix(b.head, []byte("\xef\xbb\xbf#!")):
		return say("save it without one", "%s cannot run, because a byte order mark stands before its #!", b.path)
	case b.format == "" || b.format == "script" && b.goos == "windows":
		return say("begin a script with #!/bin/sh", "%s is neither a program nor a script with #!, so starting it fails with an exec format error", b.path)
	case b.format == "script" && b.interp == "":
		return say("begin the script with #!/bin/sh", "%s names no interpreter after its #!", b.path)
	}
	return nil
}

func ruleWrongPlatform(b *executable) []remark {
	if !b.readable() || b.format == "" || b.format == "script" {
		return nil
	}
	native := map[string]string{"windows": "PE", "darwin": "Mach-O"}[b.goos]
	if native == "" {
		native = "ELF"
	}
	switch {
	case b.format != native:
		return say("", "%s is a program for %s (%s), and this is %s", b.path, map[string]string{"PE": "Windows", "Mach-O": "macOS", "ELF": "Linux"}[b.format], b.format, b.goos)
	case b.elf != nil && !runsOn(b.elf.goarch(), b.machine):
		return say("", "%s is a program for %s, and this machine is %s", b.path, b.elf.goarch(), b.machine)
	}
	return nil
}

func ruleCRLFShebang(b *executable) []remark {
	if !strings.HasSuffix(b.interp, "\r") || b.format != "script" {
		return nil
	}
	return say("save it with line feeds alone", "%s cannot run, because its first line ends with a carriage return, which becomes part of the interpreter's name", b.path)
}

func ruleMissingInterpreter(b *executable) []remark {
	if b.interp == "" || strings.HasSuffix(b.interp, "\r") || b.goos == "windows" || len(ruleWrongPlatform(b)) > 0 {
		return nil
	}
	if _, err := os.Stat(b.interp); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	suggestion := "install a statically linked build"
	if b.format == "script" {
		suggestion = "install the interpreter, or use one that is there"
	}
	return say(suggestion, "%s needs %s, which does not exist here: starting it fails with \"no such file or directory\" although it is there", b.path, excerpt.Value(b.interp))
}

func ruleDynamicBinary(b *executable) []remark {
	if b.elf == nil || b.interp == "" {
		return nil
	}
	return say("", "%s is dynamically linked (%s): it needs this machine's libraries", b.path, excerpt.Value(b.interp))
}
