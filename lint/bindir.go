// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/executable"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/lint/internal/rules"
)

type binDirectory struct {
	config  *config.Config
	path    string
	err     error    // why the directory cannot be used
	helpers []string // docker credential helpers that no provider uses as its plugin
}

func binDirRules() []rules.Rule[*binDirectory] {
	return []rules.Rule[*binDirectory]{
		rules.ErrorRule("missing-bin-dir", checkMissingBinDir),
		rules.WarningRule("writable-by-others", checkWritableBinDir),
		rules.ErrorRule("noexec-mount", checkNoexecMount),
		rules.InfoRule("docker-helper-in-bin-dir", checkDockerHelpers),
	}
}

const maxBinDirEntries = 4096

func newBinDirectory(c *config.Config, path string) *binDirectory {
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
		return d // running plugins does not require permission to list the directory
	}
	defer f.Close()
	entries, _ := f.ReadDir(maxBinDirEntries)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "docker-credential-") && !hasProvider(c, e.Name()) {
			d.helpers = append(d.helpers, e.Name())
		}
	}
	return d
}

func hasProvider(c *config.Config, name string) bool {
	return slices.ContainsFunc(c.Providers, func(p config.Provider) bool { return p.Name == name })
}

// ownership specifies which file owners are trusted. On Windows, neither owners nor ACLs are
// checked.
type ownership bool

const (
	anyOwner     ownership = false
	trustedOwner ownership = true // root or the current user
)

func checkMissingBinDir(d *binDirectory) []rules.Result {
	return rules.ResultIf(d.err != nil,
		rules.NewPositionResult(config.Position{File: d.path}, "", "the plugin directory cannot be used (%v), so %s", regularfile.BareError(d.err), runnerForProviders(d.config).failsText))
}

func checkWritableBinDir(d *binDirectory) []rules.Result {
	if d.err != nil {
		return nil
	}
	who := cmp.Or(describeWhoCanChange(d.path, trustedOwner), describeWhoCanWrite(d.path, false))
	return rules.ResultIf(who != "",
		rules.NewPositionResult(config.Position{File: d.path}, "make the directory and its parents writable only by root", "%s, so other users can change what %s", who, runnerForProviders(d.config).runsText))
}

func checkNoexecMount(d *binDirectory) []rules.Result {
	return rules.ResultIf(d.err == nil && executable.IsOnNoexecMount(d.path),
		rules.NewPositionResult(config.Position{File: d.path}, "use a directory on a file system that allows exec", "the directory is on a file system mounted with noexec, so no plugin in it can run"))
}

func checkDockerHelpers(d *binDirectory) (rs []rules.Result) {
	for _, name := range d.helpers {
		rs = append(rs, rules.NewPositionResult(config.Position{File: d.path}, "", "%q is a docker credential helper, which a kubelet cannot use, and no provider refers to it", excerpt.TruncateValue(name))...)
	}
	return rs
}

type program struct {
	path        string
	findSimilar func() (name, fix string) // finds a file with a similar name, and suggests a fix
	info        fs.FileInfo
	err         error // error from finding the file; if info is set, error from reading it

	executable.Info
	goos   string
	goarch string
	runner pluginRunner
}

func binaryRules() []rules.Rule[*program] {
	return []rules.Rule[*program]{
		rules.ErrorRule("missing-binary", checkMissingBinary),
		rules.InfoRule("unreadable-binary", checkUnreadableBinary),
		rules.ErrorRule("not-executable", checkNotAFile),
		rules.ErrorRule("not-executable", checkNoExecuteBit),
		rules.WarningRule("writable-by-others", checkWritableBinary),
		rules.ErrorRule("unusable-binary", checkNotAProgram),
		rules.ErrorRule("unusable-binary", checkWrongPlatform),
		rules.ErrorRule("unusable-binary", checkCRLFShebang),
		rules.ErrorRule("unusable-binary", checkMissingInterpreter),
		rules.InfoRule("dynamic-binary", checkDynamicBinary),
	}
}

// newProgram inspects the executable called name in dir. taken reports whether a provider uses a
// file name; such files are not suggested as a replacement for a missing executable.
func newProgram(dir, name string, host pluginRunner, taken func(string) bool) *program {
	b := &program{goos: runtime.GOOS, goarch: runtime.GOARCH, runner: host}
	b.findSimilar = func() (string, string) { return executable.FindSimilar(dir, name, taken) }
	b.path, b.info, b.err = findBinary(dir, name)
	if b.err == nil && b.info.Mode().IsRegular() {
		b.Info, b.err = executable.Read(b.path)
	}
	return b
}

func checkMissingBinary(b *program) []rules.Result {
	if b.info != nil || !errors.Is(b.err, fs.ErrNotExist) {
		return nil
	}
	if target, missing := executable.FollowDanglingLink(b.path); missing != "" {
		return rules.NewResult("install the target, or recreate the link", "%s is a dangling symlink to %s: %s does not exist, so %s", b.path, excerpt.TruncateValue(target), missing, b.runner.failsText)
	}
	if near, fix := b.findSimilar(); near != "" {
		return rules.NewResult(fix, "%s does not exist (but %s exists), so %s", b.path, filepath.Join(filepath.Dir(b.path), near), b.runner.failsText)
	}
	return rules.NewResult("install the plugin there, or set --bin-dir", "%s does not exist, so %s", b.path, b.runner.failsText)
}

func checkUnreadableBinary(b *program) []rules.Result {
	return rules.ResultIf(b.err != nil && (b.info != nil || !errors.Is(b.err, fs.ErrNotExist)),
		rules.NewResult("run this command as root", "%s cannot be inspected: %v", b.path, regularfile.BareError(b.err)))
}

func checkNotAFile(b *program) []rules.Result {
	switch {
	case b.info == nil || b.info.Mode().IsRegular():
		return nil
	case b.info.IsDir():
		return rules.NewResult("", "%s is a directory, so %s", b.path, b.runner.failsText)
	}
	return rules.NewResult("", "%s is not a regular file", b.path)
}

func checkNoExecuteBit(b *program) []rules.Result {
	if b.info == nil || !b.info.Mode().IsRegular() || !lacksExecBit(b.info) {
		return nil
	}
	return rules.NewResult("chmod 0755", "%s has no execute permission (mode %04o), so %s", b.path, b.info.Mode().Perm(), b.runner.failsText)
}

func checkWritableBinary(b *program) []rules.Result {
	if b.info == nil {
		return nil
	}
	who := describeWhoCanWrite(b.path, true)
	if target, err := filepath.EvalSymlinks(b.path); who == "" && err == nil {
		if info, err := os.Lstat(b.path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			who = describeWhoCanChange(target, trustedOwner)
		}
	}
	who = cmp.Or(who, describeForeignOwner(b.path))
	return rules.ResultIf(who != "",
		rules.NewResult("change the owner to root, and make it writable only by root", "%s, so other users can change what %s", who, b.runner.runsText))
}

func (b *program) isReadable() bool { return b.err == nil && b.info.Mode().IsRegular() }

func checkNotAProgram(b *program) []rules.Result {
	switch {
	case !b.isReadable():
		return nil
	case b.FormatError != nil:
		return rules.NewResult("reinstall it", "%s cannot run: %v", b.path, b.FormatError)
	case b.Format == executable.FormatScriptWithBOM:
		return rules.NewResult("save it without a byte order mark", "%s cannot run, because a byte order mark precedes its #! line", b.path)
	case b.Format == executable.FormatScript && b.goos == "windows":
		return rules.NewResult("install a Windows executable", "%s is a #! script, which Windows cannot run", b.path)
	case b.Format == executable.FormatScript && b.Interpreter == "":
		return rules.NewResult("begin the script with #!/bin/sh", "%s has no interpreter after #!, so it cannot run", b.path)
	}
	if what, fix := b.Format.ExplainMismatch(); what != "" {
		return rules.NewResult(fix, "%s is %s, so starting it fails with an exec format error", b.path, what)
	}
	return nil
}

func checkWrongPlatform(b *program) []rules.Result {
	native := map[string]executable.Format{"windows": executable.FormatPE, "darwin": executable.FormatMachO}[b.goos]
	if native == "" {
		native = executable.FormatELF
	}
	system := map[executable.Format]string{executable.FormatPE: "Windows", executable.FormatMachO: "macOS", executable.FormatELF: "Linux"}[b.Format]
	switch {
	case system == "":
		return nil
	case b.Format != native:
		return rules.NewResult("", "%s is built for %s (%s), but this system is %s", b.path, system, b.Format, b.goos)
	case b.Arch != "" && !canRunOn(b.Arch, b.goarch):
		return rules.NewResult("", "%s is built for %s, but this machine is %s", b.path, b.Arch, b.goarch)
	}
	return nil
}

// canRunOn reports whether a machine can run a program built for another architecture. It assumes
// that amd64 and arm64 kernels also run 32-bit programs.
func canRunOn(program, machine string) bool {
	return program == machine ||
		program == "386" && machine == "amd64" ||
		program == "arm" && machine == "arm64"
}

func checkCRLFShebang(b *program) []rules.Result {
	return rules.ResultIf(b.Format == executable.FormatScript && strings.HasSuffix(b.Interpreter, "\r"),
		rules.NewResult("save it with LF line endings", "%s cannot run, because its first line ends with a carriage return, which becomes part of the interpreter path", b.path))
}

func checkMissingInterpreter(b *program) []rules.Result {
	if b.Interpreter == "" || strings.HasSuffix(b.Interpreter, "\r") || b.goos == "windows" || len(checkWrongPlatform(b)) > 0 {
		return nil
	}
	if _, err := os.Stat(b.Interpreter); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	suggestion := "install a statically linked build"
	if b.Format == executable.FormatScript {
		suggestion = "install the interpreter, or change the #! line"
	}
	return rules.NewResult(suggestion, "%s needs %s, which does not exist here, so starting the plugin fails with \"no such file or directory\"", b.path, excerpt.TruncateValue(b.Interpreter))
}

func checkDynamicBinary(b *program) []rules.Result {
	return rules.ResultIf(b.Format == executable.FormatELF && b.Interpreter != "",
		rules.NewResult("", "%s is dynamically linked (%s), so it needs shared libraries on this machine", b.path, excerpt.TruncateValue(b.Interpreter)))
}
