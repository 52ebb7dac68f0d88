// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package node

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testenv"
)

// parsedUnit holds the files, command and environment that systemd reads from a unit.
type parsedUnit struct {
	Files       []string
	Command     []string // words of the command before variables are expanded
	Environment []string
}

// TestSystemdAgrees verifies that regcred and systemd read the same files, command words and
// variables from each unit in testdata.
func TestSystemdAgrees(t *testing.T) {
	program := systemdPath(t)
	count := 0
	for file, archive := range loadNodeTrees(t) {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			root := createNode(t, archive)
			r := Node{Root: root}.NewReader()
			found := r.kubeletService(r.newReader(t.Context()))
			if found.unit == nil || found.unit.masked || len(found.unit.execs) != 1 || strings.Contains(found.unit.startCommand().value, " ; ") || name == "bad-open-quote" || name == "bad-unit-fifo" {
				return // systemd ignores the command of these units, or hangs
			}
			count++
			want := parseWithSystemd(t, program, root, found.unit.name)
			if diff := cmp.Diff(want, parseWithRegcred(t, root, found)); diff != "" {
				t.Errorf("-systemd +ours\n%s", diff)
			}
		})
	}
	if count < 30 {
		t.Errorf("only %d units were looked at", count)
	}
}

// TestSystemdReadsQuotedWords verifies that systemd splits a command from Command.With into the
// original arguments.
func TestSystemdReadsQuotedWords(t *testing.T) {
	args := []string{"--x=/a b", `--y=%n $HOME ${A} "q" 'p' \n`, "", ";", "--z=ä", "$A", "--plain=/x"}
	archive := must.Get(txtar.ParseFile("testdata/nodes/kubeadm-deb.txtar"))(t)
	root := createNode(t, archive)
	s := must.Get(Node{Root: root}.NewReader().Setup(t.Context()))(t)
	text := "[Service]\nExecStart=\nExecStart=" + s.Unit.Exec.With(args...) + "\n"
	must.Do(t, createFile(filepath.Join(root, s.Unit.DropIn), "file", []byte(text)))
	got := parseWithSystemd(t, systemdPath(t), root, s.Unit.Name).Command
	if len(got) < len(args) {
		t.Fatalf("got %q", got)
	}
	for i, want := range args {
		if text, _ := expandVariables(got[len(got)-len(args)+i], nil); text != want {
			t.Errorf("got %q, want %q", text, want)
		}
	}
}

// systemdPath returns the path of systemd's executable. It skips the test if systemd is not
// installed.
func systemdPath(t *testing.T) string {
	t.Helper()
	for _, p := range []string{"/usr/lib/systemd/systemd", "/lib/systemd/systemd"} {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	testenv.SkipUnlessAvailable(t, "systemd", "systemd is not installed, which would say what it makes of the units")
	return ""
}

func parseWithRegcred(t *testing.T, root string, found kubeletService) parsedUnit {
	t.Helper()
	s := found.unit
	var j parsedUnit
	for i, file := range s.files {
		if file = filepath.Join(root, file); i == 0 {
			if real, err := filepath.EvalSymlinks(file); err == nil {
				file = real
			}
		}
		j.Files = append(j.Files, file)
	}
	prefixes, command := cutExecPrefixes(s.startCommand().value)
	for _, w := range splitWords(command) {
		j.Command = append(j.Command, expandSpecifiers(w, s.name))
	}
	if strings.Contains(prefixes, "@") {
		j.Command = j.Command[1:]
	}
	for _, e := range s.environment {
		for _, w := range splitWords(e.value) {
			j.Environment = append(j.Environment, expandSpecifiers(w, s.name))
		}
	}
	return j
}

// parseWithSystemd runs systemd --test and returns what systemd reads from a unit. It runs systemd as
// another user, because systemd --test does not run as root.
func parseWithSystemd(t *testing.T, program, root, unit string) parsedUnit {
	t.Helper()
	var dirs []string
	for _, dir := range unitDirs() {
		dirs = append(dirs, filepath.Join(root, dir))
		rebaseSymlinks(t, root, filepath.Join(root, dir))
	}
	basics := filepath.Join(root, "basics") // directory for units on which every unit depends
	dirs = append(dirs, basics)
	for _, name := range []string{"sysinit.target", "basic.target", "shutdown.target", "network-online.target", "kubelet-dependencies.target", "crio.service", "containerd.service"} {
		if err := createFile(filepath.Join(basics, name), "file", []byte("[Unit]\nDescription=x\n[Service]\nExecStart=/bin/true\n")); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--test", "--system", "--unit="+unit)
	cmd.Env = []string{"SYSTEMD_UNIT_PATH=" + strings.Join(dirs, ":"), "SYSTEMD_LOG_LEVEL=info", "XDG_RUNTIME_DIR=" + root, "PATH=/usr/bin:/bin"}
	if os.Geteuid() == 0 {
		makeReadable(t, root)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, NoSetGroups: true}}
	}
	out, err := cmd.CombinedOutput()
	_, text, ok := bytes.Cut(out, []byte("-> Unit "+unit+":\n"))
	if real, err := filepath.EvalSymlinks(filepath.Join(root, "etc/systemd/system", unit)); !ok && err == nil {
		_, text, ok = bytes.Cut(out, []byte("-> Unit "+filepath.Base(real)+":\n")) // systemd uses the name of the unit file
	}
	if err != nil || !ok {
		t.Skipf("systemd does not tell what it makes of units here: %v: %s", err, out[max(0, len(out)-300):])
	}
	return parseSystemdOutput(string(text))
}

// rebaseSymlinks rewrites the absolute symlinks in a directory, so that they point below the root
// directory. It keeps symlinks to /dev/null, which mask units.
func rebaseSymlinks(t *testing.T, root, dir string) {
	t.Helper()
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if target, err := os.Readlink(name); err == nil && filepath.IsAbs(target) && !strings.HasPrefix(target, root) && target != "/dev/null" {
			must.Do(t, os.Remove(name))
			must.Do(t, os.Symlink(filepath.Join(root, target), name))
		}
	}
}

// makeReadable makes a test's directory and its parents readable for other users.
func makeReadable(t *testing.T, dir string) {
	t.Helper()
	for ; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		must.Do(t, os.Chmod(dir, 0o755))
	}
}

func parseSystemdOutput(text string) (j parsedUnit) {
	text, _, _ = strings.Cut(text, "\n\t-> Unit ")
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Fragment Path":
			j.Files = append([]string{value}, j.Files...)
		case "DropIn Path":
			if target, err := os.Readlink(value); err != nil || target != "/dev/null" {
				j.Files = append(j.Files, value)
			}
		case "Environment":
			j.Environment = append(j.Environment, value)
		case "Command Line":
			j.Command = nil // drop the commands of ExecStartPre
			j.Command = splitVariableWords(value)
		}
		if strings.HasPrefix(key, "-> ExecStop") || strings.HasPrefix(key, "-> ExecReload") {
			break
		}
	}
	return j
}
