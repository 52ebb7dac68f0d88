// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// pluginExecution is a run of "regcred exec" with a shell script.
type pluginExecution struct {
	*exec.Cmd
	temp   string // parent of the session's directory
	lines  *bufio.Reader
	stderr bytes.Buffer
}

func newPluginExecution(t *testing.T, script string) *pluginExecution {
	t.Helper()
	regcred := must.Get(exec.LookPath("regcred"))(t)
	dir := t.TempDir()
	e := &pluginExecution{temp: filepath.Join(dir, "temp")}
	for _, name := range []string{"temp", "home", "bin"} {
		must.Do(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	config := filepath.Join(dir, "c.yaml")
	const text = `{"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": [{"name": "good",
		"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "matchImages": ["registry.example"], "defaultCacheDuration": "1m"}]}`
	must.Do(t, os.WriteFile(config, []byte(text), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(dir, "bin", helperProgram), []byte("#!/bin/sh\n"), 0o700))
	e.Cmd = exec.Command(regcred, "exec", "--config", config, "--bin-dir", dir, "--", "sh", "-c", script)
	e.Env = append(os.Environ(), "TMPDIR="+e.temp, "HOME="+filepath.Join(dir, "home"), "XDG_RUNTIME_DIR=", "XDG_CONFIG_HOME=", "DOCKER_CONFIG=", "REGISTRY_AUTH_FILE=",
		"PATH="+filepath.Join(dir, "bin")+string(filepath.ListSeparator)+os.Getenv("PATH"))
	e.Stderr = &e.stderr
	return e
}

// startAndReadLine runs the command until the script's first line of output, and returns that
// line.
func (e *pluginExecution) startAndReadLine(t *testing.T) string {
	t.Helper()
	stdout := must.Get(e.StdoutPipe())(t)
	must.Do(t, e.Start())
	e.lines = bufio.NewReader(stdout)
	line, err := e.lines.ReadString('\n')
	if err != nil {
		t.Fatalf("%v\n%s", err, e.stderr.String())
	}
	return strings.TrimSpace(line)
}

// remainingOutput returns the remaining output of the script.
func (e *pluginExecution) remainingOutput(t *testing.T) string {
	t.Helper()
	out := must.Get(io.ReadAll(e.lines))(t)
	return string(out)
}

func (e *pluginExecution) remainingFiles(t *testing.T) []string {
	t.Helper()
	return must.Get(filepath.Glob(filepath.Join(e.temp, "*")))(t)
}

// TestExecSignal checks that a signal sent only to regcred is forwarded to the command. regcred
// must wait for the command, end with the command's exit code or signal, and remove its files.
func TestExecSignal(t *testing.T) {
	for name, tt := range map[string]struct {
		script string
		sig    syscall.Signal
		dies   bool // whether the signal kills regcred
		code   int
	}{
		"dies":           {"echo there; exec cat", syscall.SIGTERM, true, 0},
		"dies of an INT": {"echo there; exec cat", syscall.SIGINT, true, 0},
		"dies of a HUP":  {"echo there; exec cat", syscall.SIGHUP, true, 0},
		"no such death":  {"echo there; exec cat", syscall.SIGUSR1, false, 128 + int(syscall.SIGUSR1)},
		"tidies up":      {`trap 'echo "${DOCKER_CONFIG##*/}"; test -e "$DOCKER_CONFIG/config.json" && exit 7' TERM; echo there; read x`, syscall.SIGTERM, false, 7},
		"goes on":        {`trap : INT; echo there; read x; read x; exit 0`, syscall.SIGINT, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if signal.Ignored(tt.sig) {
				t.Skipf("%v is ignored here, as under nohup, and so it is by the command", tt.sig)
			}
			e := newPluginExecution(t, tt.script)
			stdin, err := e.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			e.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // like a background job
			e.startAndReadLine(t)
			if len(e.remainingFiles(t)) != 1 {
				t.Errorf("there is no directory: %q", e.remainingFiles(t))
			}
			must.Do(t, e.Process.Signal(tt.sig))
			if name == "goes on" {
				io.WriteString(stdin, "a\nb\n")
			}
			said := e.remainingOutput(t)
			err = e.Wait()
			exitErr, _ := errors.AsType[*exec.ExitError](err)
			switch {
			case tt.dies && (exitErr == nil || exitErr.Sys().(syscall.WaitStatus).Signal() != tt.sig):
				t.Errorf("got %v, want death by %v", err, tt.sig)
			case !tt.dies && e.ProcessState.ExitCode() != tt.code:
				t.Errorf("got %v, want exit code %d", err, tt.code)
			}
			if name == "tidies up" && said != "docker\n" {
				t.Errorf("the command said %q", said)
			}
			if left := e.remainingFiles(t); len(left) != 0 {
				t.Errorf("left behind: %q", left)
			}
			if e.stderr.Len() > 0 {
				t.Errorf("stderr %q", e.stderr.String())
			}
		})
	}
}

// TestExecKilled checks that "regcred exec" removes the files of an earlier run that was killed,
// but not the files of a run that is still active.
func TestExecKilled(t *testing.T) {
	const script = `echo "$DOCKER_CONFIG"; read x`
	var killed, living *pluginExecution
	run := func(temp string) *pluginExecution {
		e := newPluginExecution(t, script)
		if temp != "" {
			e.temp = temp
			e.Env = append(e.Env, "TMPDIR="+temp)
		}
		return e
	}
	living = run("")
	stdin := must.Get(living.StdinPipe())(t)
	lives := living.startAndReadLine(t)
	killed = run(living.temp)
	held := must.Get(killed.StdinPipe())(t)
	killed.startAndReadLine(t)
	must.Do(t, killed.Process.Kill())
	held.Close()
	killed.remainingOutput(t)
	killed.Wait()
	foreign := filepath.Join(living.temp, "regcred-exec-file")
	must.Do(t, os.WriteFile(foreign, nil, 0o600))
	if got := len(living.remainingFiles(t)); got != 3 {
		t.Errorf("%d entries, want two directories and a file", got)
	}
	next := run(living.temp)
	next.Stderr = nil
	if out, err := next.Output(); err == nil { // the script has no input to read
		t.Errorf("got %q", out)
	}
	if _, err := os.Stat(filepath.Join(lives, "config.json")); err != nil {
		t.Error(err)
	}
	if got := living.remainingFiles(t); len(got) != 2 {
		t.Errorf("left: %q, want one directory and a file", got)
	}
	stdin.Close()
	living.remainingOutput(t)
	living.Wait()
	if got := living.remainingFiles(t); len(got) != 1 || got[0] != foreign {
		t.Errorf("left: %q", got)
	}
}

// TestExecFailsBefore checks that a signal during the lookup ends regcred without
// running the command.
func TestExecFailsBefore(t *testing.T) {
	s := newSlowCommand(t)
	s.Args = append(s.Args, append(append([]string{"exec", "--materialize", "--image", "registry.example/app"}, s.flags...), "--", "sh", "-c", "echo was run")...)
	s.startAndSignal(t, syscall.SIGTERM)
	if s.stdout.Len() > 0 {
		t.Errorf("stdout %q", s.stdout.String())
	}
	if got, want := s.stderr.String(), "error: interrupted\n"; got != want {
		t.Errorf("stderr %q, want %q", got, want)
	}
}

// TestExecKilledAlone checks that the command keeps its files while it runs, even if regcred is
// killed.
func TestExecKilledAlone(t *testing.T) {
	killed := newPluginExecution(t, `echo there; read x; cat "$DOCKER_CONFIG/config.json"`)
	stdin, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	killed.Stdin = stdin
	killed.startAndReadLine(t)
	stdin.Close()
	must.Do(t, killed.Process.Kill())
	must.Get(killed.Process.Wait())(t)
	next := func() {
		e := newPluginExecution(t, "true")
		e.Env = append(e.Env, "TMPDIR="+killed.temp)
		if err := e.Run(); err != nil {
			t.Errorf("%v\n%s", err, e.stderr.String())
		}
	}
	next()
	io.WriteString(theirs, "x\n")
	if said := killed.remainingOutput(t); !strings.Contains(said, `"regcred"`) {
		t.Errorf("the command found %q", said)
	}
	waitUntilUnlocked(t, killed.remainingFiles(t)[0])
	next()
	if left := killed.remainingFiles(t); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
}

// waitUntilUnlocked waits until no process has locked a directory.
func waitUntilUnlocked(t *testing.T, dir string) {
	t.Helper()
	f := must.Get(os.Open(dir))(t)
	defer f.Close()
	must.Do(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
}

// TestExecRelativeTemp checks that a command finds its files after it changes its working
// directory, even if TMPDIR is relative.
func TestExecRelativeTemp(t *testing.T) {
	e := newPluginExecution(t, `cd / && cat "$DOCKER_CONFIG/config.json" "$REGISTRY_AUTH_FILE"`)
	e.Dir = e.temp
	e.Env = append(e.Env, "TMPDIR=.")
	if out, err := e.Output(); err != nil || strings.Count(string(out), `"regcred"`) != 2 {
		t.Errorf("%v: %s\n%s", err, out, e.stderr.String())
	}
}
