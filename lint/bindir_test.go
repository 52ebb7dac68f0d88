// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package lint

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testelf"
	"github.com/regcred/regcred/plugin"
)

// newBinDir creates a directory that only its owner can write to. It skips the test if other users can
// write to a parent directory.
func newBinDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, os.Chmod(dir, 0o755))
	dir = must.Get(filepath.EvalSymlinks(dir))(t)
	for above := filepath.Dir(dir); ; above = filepath.Dir(above) {
		info := must.Get(os.Stat(above))(t)
		owner := int(info.Sys().(*syscall.Stat_t).Uid)
		if owner != 0 && owner != os.Geteuid() || info.Mode()&0o022 != 0 && info.Mode()&os.ModeSticky == 0 {
			t.Skipf("others can write to %s, above the temporary directory", above)
		}
		if above == filepath.Dir(above) {
			return dir
		}
	}
}

func lintBinDir(dir string, names ...string) []finding.Finding {
	c := &config.Config{}
	for _, name := range names {
		c.Providers = append(c.Providers, lintProvider(name, "registry.example.com"))
	}
	return BinDir(c, dir)
}

func TestLintBinDir(t *testing.T) {
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	native, known := machines[runtime.GOARCH]
	if runtime.GOOS != "linux" || !known {
		t.Skipf("ELF cases are written for Linux on amd64 and arm64, not for %s on %s", runtime.GOOS, runtime.GOARCH)
	}
	this := must.Get(os.Executable())(t)
	image := func(machine elf.Machine, interp string) []byte {
		return testelf.BuildFile(t, elf.ELFCLASS64, binary.LittleEndian, machine, interp)
	}
	const text = "if it is a script, add #!/bin/sh as its first line; otherwise install the program again"
	const page = `check the URL, and download the program again with "curl --fail --location"`
	const static, lf = "install a statically linked build", "save it with LF line endings"
	for title, tt := range map[string]struct {
		content []byte
		mode    os.FileMode
		want    []string
	}{
		"static":               {image(native, ""), 0o755, nil},
		"386":                  {testelf.BuildFile(t, elf.ELFCLASS32, binary.LittleEndian, elf.EM_386, ""), 0o755, map[bool][]string{false: {"wrong-platform name"}}[runtime.GOARCH == "amd64"]},
		"dynamic":              {image(native, this), 0o755, []string{"dynamic-binary name"}},
		"missing loader":       {image(native, "/lib/ld-musl-nowhere.so.1"), 0o755, []string{"missing-interpreter name: " + static, "dynamic-binary name"}},
		"other architecture":   {image(elf.EM_S390, ""), 0o755, []string{"wrong-platform name"}},
		"other, dynamic":       {image(elf.EM_S390, "/lib/ld64.so.1"), 0o755, []string{"wrong-platform name", "dynamic-binary name"}},
		"damaged":              {image(native, this)[:70], 0o755, []string{"not-a-program name: reinstall it"}},
		"Windows":              {[]byte("MZ\x90\x00"), 0o755, []string{"wrong-platform name"}},
		"macOS":                {[]byte("\xcf\xfa\xed\xfe"), 0o755, []string{"wrong-platform name"}},
		"macOS, universal":     {[]byte("\xca\xfe\xba\xbe"), 0o755, []string{"wrong-platform name"}},
		"script":               {[]byte("#!" + this + " -x\n"), 0o755, nil},
		"script with a blank":  {[]byte("#! " + this + "\n"), 0o755, nil},
		"CRLF":                 {[]byte("#!" + this + "\r\nexit\r\n"), 0o755, []string{"crlf-shebang name: " + lf}},
		"missing shell":        {[]byte("#!/bin/nosuchshell\n"), 0o755, []string{"missing-interpreter name: install the interpreter, or change the #! line"}},
		"no interpreter":       {[]byte("#!\n"), 0o755, []string{"not-a-program name: begin the script with #!/bin/sh"}},
		"script without #!":    {[]byte("echo hello\n"), 0o755, []string{"not-a-program name: " + text}},
		"BOM":                  {[]byte("\xef\xbb\xbf#!/bin/sh\n"), 0o755, []string{"not-a-program name: save it without a byte order mark"}},
		"empty":                {nil, 0o755, []string{"not-a-program name: install it again (the copy or download was interrupted, or the disk was full)"}},
		"HTML":                 {[]byte("<html><body>Sign in"), 0o755, []string{"not-a-program name: " + page}},
		"XML":                  {[]byte("<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code>"), 0o755, []string{"not-a-program name: " + page}},
		"JSON":                 {[]byte(`{"message": "Not Found"}`), 0o755, []string{"not-a-program name: " + page}},
		"404":                  {[]byte("404: Not Found"), 0o755, []string{"not-a-program name: " + page}},
		"gzip":                 {[]byte("\x1f\x8b\x08\x00"), 0o755, []string{"not-a-program name: extract it, and install the program"}},
		"git-lfs":              {[]byte("version https://git-lfs.github.com/spec/v1\noid sha256:00"), 0o755, []string{`not-a-program name: run "git lfs pull", and install the downloaded file`}},
		"noise":                {[]byte("\x00\x01\x02"), 0o755, []string{"not-a-program name: install it again (the file is damaged or is the wrong file)"}},
		"no execute bit":       {image(native, ""), 0o644, []string{"not-executable name: chmod 0755"}},
		"writable":             {image(native, ""), 0o777, []string{"writable-binary name: change the owner to root, and make it writable only by root"}},
		"execute for some":     {image(native, ""), 0o700, nil},
		"both, and no program": {[]byte("x"), 0o666, []string{"not-executable name: chmod 0755", "writable-binary name: change the owner to root, and make it writable only by root", "not-a-program name: " + text}},
	} {
		t.Run(title, func(t *testing.T) {
			dir := newBinDir(t)
			path := filepath.Join(dir, "plugin")
			must.Do(t, os.WriteFile(path, tt.content, 0o600))
			must.Do(t, os.Chmod(path, tt.mode))
			if diff := cmp.Diff(tt.want, briefFindings(lintBinDir(dir, "plugin"))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLintBinDirEntries(t *testing.T) {
	dir := newBinDir(t)
	this := must.Get(os.Executable())(t)
	script := []byte("#!" + this + "\n")
	for _, name := range []string{"good", "docker-credential-a", "docker-credential-b"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), script, 0o755))
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(os.Mkdir(filepath.Join(dir, "folder"), 0o755))
	check(syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o755))
	check(os.Symlink("nowhere", filepath.Join(dir, "dangling")))
	check(os.Symlink("good", filepath.Join(dir, "link")))
	check(os.Symlink("loop", filepath.Join(dir, "loop")))

	names := []string{"good", "folder", "pipe", "dangling", "link", "loop", "missing", "docker-credential-b", "../good", "", "."}
	var got []string
	for _, f := range lintBinDir(dir, names...) {
		got = append(got, f.Path+" "+caseName(f)+" "+strings.ReplaceAll(f.Message, dir, "DIR"))
	}
	want := []string{
		` docker-helper-in-bin-dir "docker-credential-a" is a docker credential helper, which a kubelet cannot use, and no provider refers to it`,
		`providers[1].name not-a-file DIR/folder is a directory, so the kubelet exits`,
		`providers[2].name not-a-file DIR/pipe is not a regular file`,
		`providers[3].name missing-binary DIR/dangling is a dangling symlink to nowhere: DIR/nowhere does not exist, so the kubelet exits`,
		`providers[5].name unreadable-binary DIR/loop cannot be inspected: too many levels of symbolic links`,
		`providers[6].name missing-binary DIR/missing does not exist, so the kubelet exits`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestLintBinDirOfPredecessor verifies that findings about plugins of the out-of-tree proposal say
// that regcred cannot run them, and not that the kubelet exits.
func TestLintBinDirOfPredecessor(t *testing.T) {
	dir := newBinDir(t)
	must.Do(t, os.Mkdir(filepath.Join(dir, "folder"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(dir, "mode"), []byte("#!/bin/sh\n"), 0o644))
	old := func(name string) config.Provider { return config.Provider{Name: name, APIVersion: plugin.OutOfTree} }
	c := &config.Config{Providers: []config.Provider{old("missing"), old("folder"), old("mode")}}
	mixed := &config.Config{Providers: append(slices.Clone(c.Providers), lintProvider("new", "a.example"))}
	for _, tt := range []struct {
		c    *config.Config
		dir  string
		want []string
	}{
		{c, dir, []string{
			"missing-binary DIR/missing does not exist, so regcred cannot run the plugin",
			"not-a-file DIR/folder is a directory, so regcred cannot run the plugin",
			"not-executable DIR/mode has no execute permission (mode 0644), so regcred cannot run the plugin"}},
		{mixed, dir, []string{
			"missing-binary DIR/missing does not exist, so regcred cannot run the plugin",
			"not-a-file DIR/folder is a directory, so regcred cannot run the plugin",
			"not-executable DIR/mode has no execute permission (mode 0644), so regcred cannot run the plugin",
			"missing-binary DIR/new does not exist, so the kubelet exits"}},
		{c, filepath.Join(dir, "none"), []string{"missing-bin-dir the plugin directory cannot be used (no such file or directory), so regcred cannot run the plugin"}},
		{mixed, filepath.Join(dir, "none"), []string{"missing-bin-dir the plugin directory cannot be used (no such file or directory), so the kubelet exits"}},
		{&config.Config{}, filepath.Join(dir, "none"), []string{"missing-bin-dir the plugin directory cannot be used (no such file or directory), so the kubelet exits"}},
	} {
		var got []string
		for _, f := range BinDir(tt.c, tt.dir) {
			got = append(got, caseName(f)+" "+strings.ReplaceAll(f.Message, dir, "DIR"))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Error(diff)
		}
	}
}

const missingBinaryFinding = "missing-binary name: install the plugin there, or set --bin-dir"

func TestLintBinDirItself(t *testing.T) {
	dir := newBinDir(t)
	file := filepath.Join(dir, "file")
	must.Do(t, os.WriteFile(file, nil, 0o644))
	open := filepath.Join(dir, "open")
	below := filepath.Join(open, "below")
	sticky := filepath.Join(dir, "sticky")
	for path, mode := range map[string]os.FileMode{open: 0o777, sticky: 0o777 | os.ModeSticky} {
		must.Do(t, errors.Join(os.Mkdir(path, 0o755), os.Chmod(path, mode)))
	}
	inSticky := filepath.Join(sticky, "below")
	must.Do(t, errors.Join(os.Mkdir(below, 0o755), os.Mkdir(inSticky, 0o755)))
	link := filepath.Join(dir, "link")
	must.Do(t, os.Symlink(below, link))
	const owned = "make the directory and its parents writable only by root"
	for path, want := range map[string][]string{
		dir:                           {missingBinaryFinding},
		filepath.Join(dir, "nowhere"): {"missing-bin-dir "},
		file:                          {"missing-bin-dir "},
		open:                          {"writable-bin-dir : " + owned, missingBinaryFinding},
		below:                         {"writable-bin-dir : " + owned, missingBinaryFinding},
		link:                          {"writable-bin-dir : " + owned, missingBinaryFinding},
		sticky:                        {"writable-bin-dir : " + owned, missingBinaryFinding},
		inSticky:                      {missingBinaryFinding},
	} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			if diff := cmp.Diff(want, briefFindings(lintBinDir(path, "plugin"))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestLintBinDirLinkTarget verifies that BinDir checks who can change the target of a symlink, even
// if the target is in another directory.
func TestLintBinDirLinkTarget(t *testing.T) {
	dir, elsewhere := newBinDir(t), newBinDir(t)
	this, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(elsewhere, "target")
	err = errors.Join(os.WriteFile(target, []byte("#!"+this+"\n"), 0o755), os.Chmod(elsewhere, 0o777), os.Symlink(target, filepath.Join(dir, "plugin")))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"writable-binary name: change the owner to root, and make it writable only by root"}
	if diff := cmp.Diff(want, briefFindings(lintBinDir(dir, "plugin"))); diff != "" {
		t.Error(diff)
	}
}

// TestLintBinDirWritableOnce verifies that a writable directory is reported once, and not again for
// each plugin in it.
func TestLintBinDirWritableOnce(t *testing.T) {
	dir := newBinDir(t)
	this, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	must.Do(t, errors.Join(os.WriteFile(filepath.Join(dir, "plugin"), []byte("#!"+this+"\n"), 0o755), os.Chmod(dir, 0o777)))
	want := []string{"writable-bin-dir : make the directory and its parents writable only by root"}
	if diff := cmp.Diff(want, briefFindings(lintBinDir(dir, "plugin"))); diff != "" {
		t.Error(diff)
	}
}

func TestLintBinDirOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	dir := newBinDir(t)
	path := filepath.Join(dir, "plugin")
	this := must.Get(os.Executable())(t)
	must.Do(t, os.WriteFile(path, []byte("#!"+this+"\n"), 0o755))
	for _, tt := range []struct {
		uid, gid int
		mode     os.FileMode
		want     string
	}{
		{0, 0, 0o775, ""},
		{0, 4321, 0o755, ""},
		{0, 4321, 0o775, path + " is writable by group 4321 (mode 0775), so other users can change what the kubelet runs as root"},
		{4321, 0, 0o775, path + " is owned by user 4321, so other users can change what the kubelet runs as root"},
		{4321, 0, 0o755, path + " is owned by user 4321, so other users can change what the kubelet runs as root"},
	} {
		must.Do(t, errors.Join(os.Chown(path, tt.uid, tt.gid), os.Chmod(path, tt.mode)))
		got := ""
		for _, f := range lintBinDir(dir, "plugin") {
			got += f.Message
		}
		if got != tt.want {
			t.Errorf("%d:%d %04o: %q, want %q", tt.uid, tt.gid, tt.mode, got, tt.want)
		}
	}
}

// TestLintBinDirGoBuild verifies that only executables built for other platforms are reported.
func TestLintBinDirGoBuild(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go tool")
	}
	dir := newBinDir(t)
	source := filepath.Join(t.TempDir(), "main.go")
	must.Do(t, os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o644))
	other := map[bool]string{true: "amd64", false: "arm64"}[runtime.GOARCH == "arm64"]
	var names, want []string
	for _, target := range []string{runtime.GOOS + "/" + runtime.GOARCH, "linux/" + other, "windows/amd64"} {
		goos, goarch, _ := strings.Cut(target, "/")
		name := goos + "-" + goarch
		cmd := exec.Command(goTool, "build", "-o", filepath.Join(dir, name), source)
		cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0", "GOFLAGS=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go build for %s: %v: %s", target, err, out)
		}
		if len(names) > 0 && name != names[0] {
			want = append(want, fmt.Sprintf("providers[%d].name wrong-platform", len(names)))
		}
		names = append(names, name)
	}
	var got []string
	for _, f := range lintBinDir(dir, names...) {
		got = append(got, f.Path+" "+caseName(f))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLintWritableConfig(t *testing.T) {
	dir := newBinDir(t)
	file := filepath.Join(dir, "config.yaml")
	data := must.Get(os.ReadFile("testdata/clean/gke.yaml"))(t)
	must.Do(t, os.WriteFile(file, data, 0o644))
	chmod := func(path string, mode os.FileMode) {
		t.Helper()
		must.Do(t, os.Chmod(path, mode))
	}
	const tail = ", so other users can change what the kubelet runs as root"
	want := func(path, message string) {
		t.Helper()
		got := ""
		for _, f := range Check(loadForLint(t, path)) {
			got += caseName(f) + " " + f.File + " " + f.Message
		}
		if message != "" {
			message = "writable-config " + message + tail
		}
		if got != message {
			t.Errorf("%s: got %q, want %q", path, got, message)
		}
	}
	want(file, "")
	want(dir, "")
	chmod(file, 0o666)
	want(file, file+" "+file+" is writable by all users (mode 0666)")
	want(dir, file+" "+file+" is writable by all users (mode 0666)")
	chmod(file, 0o644)
	second := filepath.Join(dir, "second.yaml")
	must.Do(t, os.WriteFile(second, bytes.ReplaceAll(data, []byte("auth-provider-gcp"), []byte("second")), 0o644))
	above := filepath.Dir(dir)
	chmod(above, 0o777)
	if got := len(slices.DeleteFunc(Check(loadForLint(t, dir)), func(f finding.Finding) bool { return caseName(f) != "writable-config" })); got != 1 {
		t.Errorf("%d findings about one directory above two files", got)
	}
	chmod(above, 0o755)
	must.Do(t, os.Remove(second))
	chmod(dir, 0o777)
	want(file, file+" "+dir+" is writable by all users (mode 0777)")
	want(dir, dir+" "+dir+" is writable by all users (mode 0777)")
	chmod(dir, 0o777|os.ModeSticky)
	want(file, "")
	want(dir, dir+" "+dir+" is writable by all users (mode 0777)")
}
