// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

func (b *testHost) readFile(name string) string {
	b.t.Helper()
	data := must.Get(os.ReadFile(b.filePath(name)))(b.t)
	return string(data)
}

// TestArguments verifies that exactly one argument is accepted.
func TestArguments(t *testing.T) {
	b := newTestHost(t, "good r.example *.g.example r.example/team s.example:5000")
	for _, tt := range []struct {
		args   string
		code   int
		stdout string
	}{
		{"", 1, usage + "\n"},
		{"get get", 1, usage + "\n"},
		{"Get", 1, programName + `: unknown action "Get"; ` + usage + "\n"},
		{"version", 0, programName + " v1.2.3-test\n"},
		{"--version", 0, programName + " v1.2.3-test\n"},
		{"-v", 0, programName + " v1.2.3-test\n"},
		{"--help", 0, helpText + "\n"},
		{"-h", 0, helpText + "\n"},
		{"list", 0, `{"r.example":"","s.example:5000":""}` + "\n"},
		{"erase", 0, ""},
		{"store", 1, programName + ": cannot store credentials, because they come from this machine's credential providers; to log in anyway, remove " + programName + " from credsStore, and from credHelpers for this registry\n"},
	} {
		stdout, code := b.run(b.helperCommand("r.example", strings.Fields(tt.args)))
		if code != tt.code || stdout != tt.stdout {
			t.Errorf("%q: exit code %d, %q, want %d, %q", tt.args, code, stdout, tt.code, tt.stdout)
		}
	}
	if plugins, _ := b.takePluginRuns(); len(plugins) > 0 {
		t.Errorf("runs of %q: only get runs a plugin", plugins)
	}
}

// TestInput verifies that the size of standard input is limited.
func TestInput(t *testing.T) {
	b := newTestHost(t, "good r.example")
	for what, tt := range map[string]struct{ input, want string }{
		"1 MiB":             {strings.Repeat("a", 1<<20), "longer than the limit of 4096 bytes"},
		"1 MiB of lines":    {strings.Repeat("\n", 1<<20), "longer than the limit of 4096 bytes"},
		"4096 bytes":        {strings.Repeat("a", 4096) + "", ""},
		"a control":         {"r.example\x1b[2J", "invalid character in a registry name"},
		"a NUL":             {"r.example\x00", "invalid character in a registry name"},
		"a scheme":          {"ftp://r.example", "must be https or http"},
		"user information":  {"https://user:" + canary.PasswordSecret + "@r.example", "contains an at sign, question mark, number sign or quotation mark"},
		"a path upwards":    {"r.example/../s.example", "invalid reference format"},
		"two lines":         {"r.example\n:x", "read standard input: it has more than one line; write only a registry name to it"},
		"a joined name":     {"r.exa\nmple", "it has more than one line"},
		"a carriage return": {"r.exa\rmple", "it has more than one line"},
	} {
		stdout, code := b.runGet(tt.input)
		if tt.want == "" {
			if stdout != notFound || code != 1 {
				t.Errorf("%s: exit code %d, %.100q", what, code, stdout)
			}
			continue
		}
		b.checkFailure(what, stdout, code, tt.want)
	}
	for what, input := range map[string]string{"nothing": "", "blanks": " \r\n\n\t"} {
		for _, action := range []string{"get", "erase"} {
			if stdout, code := b.run(b.helperCommand(input, []string{action})); stdout != "no credentials server URL\n" || code != 1 {
				t.Errorf("%s of %s: exit code %d, %q", action, what, code, stdout)
			}
		}
	}
	if plugins, _ := b.takePluginRuns(); len(plugins) > 0 {
		t.Errorf("runs of %q", plugins)
	}
}

func TestClosedInput(t *testing.T) {
	b := newTestHost(t, "good r.example")
	cmd := exec.Command("sh", "-c", `exec "$0" get <&-`, b.filePath(programName))
	cmd.Env = b.env
	if stdout, code := b.run(cmd); stdout != "no credentials server URL\n" || code != 1 {
		t.Errorf("exit code %d, %q", code, stdout)
	}
}

func TestInputThatDoesNotEnd(t *testing.T) {
	b := newTestHost(t, "good r.example")
	stdin, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	defer stdin.Close()
	must.Get(io.WriteString(writer, "r.example\n"))(t)
	cmd := b.helperCommand("", []string{"get"}, "TEST_INPUT=100ms")
	cmd.Stdin = stdin
	stdout, code := b.run(cmd)
	b.checkFailure("a pipe that is not closed", stdout, code, "read standard input: standard input was not closed within 100ms")
}

// TestSignalsKillPlugin verifies that a hanging plugin is killed when the plugin's or the helper's
// timeout expires.
func TestSignalsKillPlugin(t *testing.T) {
	for want, env := range map[string]string{
		"no response within 2s":                                   "TEST_PLUGIN=2s", // starting a program is slow on a busy machine
		`get: timed out after 2s, waiting for provider "hanging"`: "TEST_RUN=2s",
	} {
		b := newTestHost(t, "hanging r.example")
		stdout, code := b.runGet("r.example", env)
		b.checkFailure(env, stdout, code, want)
		if _, processes := b.takePluginRuns(); len(processes) != 1 {
			t.Errorf("%s: %d runs, want 1", env, len(processes))
		} else {
			checkExited(t, processes[0])
		}
	}
}

// TestInterrupted verifies that each signal also ends the plugin. SIGHUP is sent when a
// session closes.
func TestInterrupted(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) { testInterrupt(t, sig) })
	}
}

func testInterrupt(t *testing.T, sig syscall.Signal) {
	if signal.Ignored(sig) {
		t.Skip("whoever runs the tests has them ignore it, as nohup does")
	}
	b := newTestHost(t, "hanging r.example")
	must.Do(t, syscall.Mkfifo(b.filePath("runs"), 0o600))
	cmd := b.helperCommand("r.example", []string{"get"})
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	must.Do(t, cmd.Start())
	// Reading the pipe waits until the plugin runs.
	runs := must.Get(os.Open(b.filePath("runs")))(t)
	defer runs.Close()
	var process int
	must.Get(fmt.Fscanf(runs, "hanging %d\n", &process))(t)
	must.Do(t, cmd.Process.Signal(sig))
	cmd.Wait()
	b.checkFailure("a signal", stdout.String(), cmd.ProcessState.ExitCode(), "get: "+sig.String())
	checkExited(t, process)
}

// TestIgnoredSignals verifies that signals ignored by the parent, for example under
// nohup, stay ignored.
func TestIgnoredSignals(t *testing.T) {
	got := terminationSignals(func(sig os.Signal) bool { return sig == syscall.SIGHUP })
	if want := []os.Signal{os.Interrupt, syscall.SIGTERM}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestClosedDirectory verifies that the helper works in a working directory that the user cannot
// enter, for example after sudo -u.
func TestClosedDirectory(t *testing.T) {
	b := newTestHost(t, "good r.example")
	cmd := b.helperCommand("r.example", nil)
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `cd closed/here && chmod 0 .. && exec "$0" get`, b.filePath(programName)}
	b.writeFile("closed/here/x", "")
	t.Cleanup(func() { os.Chmod(b.filePath("closed"), 0o755) })
	b.runUnprivileged(cmd)
	if stdout, code := b.run(cmd); code != 0 || !strings.Contains(stdout, `"Username":"user"`) {
		t.Errorf("exit code %d, %q", code, stdout)
	}
}

// runUnprivileged runs cmd as a user other than root, because file modes do not restrict root. It changes the owner of the box
// to that user.
func (b *testHost) runUnprivileged(cmd *exec.Cmd) {
	b.t.Helper()
	const nobody = 65534
	if os.Geteuid() == 0 {
		b.changeOwner(nobody)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
}

// changeOwner makes uid the owner of the box and copies the programs into it, because that user may be unable to read the
// test binary.
func (b *testHost) changeOwner(uid int) {
	b.t.Helper()
	self := must.Get(os.Executable())(b.t)
	program := must.Get(os.ReadFile(self))(b.t)
	for _, link := range []string{programName, "good"} {
		must.Do(b.t, errors.Join(os.Remove(b.filePath(link)), os.WriteFile(b.filePath(link), program, 0o755)))
	}
	must.Do(b.t, os.Chmod(filepath.Dir(b.dir), 0o755))
	must.Do(b.t, filepath.WalkDir(b.dir, func(path string, _ fs.DirEntry, _ error) error { return os.Lchown(path, uid, uid) }))
}

// checkExited checks that a process has exited.
func checkExited(t *testing.T, process int) {
	t.Helper()
	if err := syscall.Kill(process, 0); err != syscall.ESRCH {
		t.Errorf("the plugin's process %d is still there: %v", process, err)
	}
}
