// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux

package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testtrace"
)

// everyCall makes TestExecEveryCall interrupt regcred at every system call.
var everyCall = flag.Bool("everycall", false, "interrupt regcred exec at every system call, also on tmpfs, not at each fifteenth")

// execScript prints "started", waits for the end of standard input, and prints "complete" if its
// files still exist.
const execScript = `echo started; cat >/dev/null; test -s "$DOCKER_CONFIG/config.json" && test -s "$REGISTRY_AUTH_FILE" && echo complete`

// TestExecEveryCall kills "regcred exec" at each system call that changes a file or a process, and
// makes each call fail because the disk is full. The command must find its files until it ends,
// also if regcred is killed. No other user may read the files, and the next "regcred exec" must
// remove them.
func TestExecEveryCall(t *testing.T) {
	dirs := []string{t.TempDir()}
	if *everyCall {
		dir := must.Get(os.MkdirTemp("/dev/shm", "everycall"))(t)
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		dirs = append(dirs, dir)
	}
	for _, dir := range dirs {
		for name, flags := range map[string][]string{
			"helper":      {"--image", "registry.example/app"},
			"materialize": {"--materialize", "--image", "registry.example/app"},
		} {
			t.Run(name, func(t *testing.T) {
				x := newTracedExec(t, dir, flags)
				for _, action := range []testtrace.Action{testtrace.KillBefore, testtrace.KillAfter, testtrace.FillDisk} {
					for i := range x.calls {
						if *everyCall || (i+int(action)*3)%15 == 0 {
							x.try(x.calls[i], action)
						}
					}
				}
				t.Logf("%d calls, %d interruptions in %s", len(x.calls), x.tried, dir)
			})
		}
	}
}

// tracedExec is a run of "regcred exec" that is interrupted.
type tracedExec struct {
	*pluginExecution
	t     *testing.T
	dir   string
	calls []testtrace.Call
	wait  int // number of the call that waits for the command
	tried int
}

func newTracedExec(t *testing.T, dir string, flags []string) *tracedExec {
	x := &tracedExec{pluginExecution: newPluginExecution(t, execScript), t: t, dir: dir}
	home := filepath.Dir(x.temp)
	auth := fmt.Sprintf(`{"auths": {"other.example": {"auth": %q}}}`, canary.PasswordSecret)
	plugin := fmt.Sprintf(`#!/bin/sh
cat >/dev/null
echo '{"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "kind": "CredentialProviderResponse", "cacheKeyType": "Registry", "auth": {"registry.example": {"username": "u", "password": "%s"}}}'
`, canary.PasswordSecret)
	must.Do(t, errors.Join(os.Mkdir(filepath.Join(home, "home/.docker"), 0o700), os.WriteFile(filepath.Join(home, "home/.docker/config.json"), []byte(auth), 0o600),
		os.WriteFile(filepath.Join(home, "good"), []byte(plugin), 0o700)))
	x.Args = slices.Insert(x.Args, 2, flags...)
	r := x.run(x.newTemp(), nil, func(c testtrace.Call) testtrace.Action {
		x.calls = append(x.calls, c)
		if strings.HasPrefix(c.Name, "wait") {
			x.wait = c.Number
		}
		return testtrace.Continue
	}, nil)
	if r.ExitCode != 0 || !strings.HasSuffix(r.Output, "started\ncomplete") || x.wait == 0 {
		t.Fatalf("exit code %d, waits at call %d: %s", r.ExitCode, x.wait, r.Output)
	}
	return x
}

func (x *tracedExec) newTemp() string {
	return must.Get(os.MkdirTemp(x.dir, "temp"))(x.t)
}

func (x *tracedExec) run(temp string, stdin *os.File, at func(testtrace.Call) testtrace.Action, ended func()) testtrace.Result {
	x.t.Helper()
	p := testtrace.Program{
		Args: append([]string{x.Path}, x.Args[1:]...), Env: append(slices.Clip(x.Env), "TMPDIR="+temp, "GOMAXPROCS=1", "GOGC=off"),
		Stdin: stdin, At: at, Ended: ended,
	}
	return must.Get(p.Run())(x.t)
}

// next runs "regcred exec true", which removes the files of killed processes.
func (x *tracedExec) next(temp string) {
	x.t.Helper()
	args := append(slices.Clone(x.Args[1:slices.Index(x.Args, "--")]), "--", "true")
	cmd := exec.Command(x.Path, args...)
	cmd.Env = append(slices.Clip(x.Env), "TMPDIR="+temp)
	if out, err := cmd.CombinedOutput(); err != nil {
		x.t.Errorf("the next command: %v: %s", err, out)
	}
}

// try interrupts regcred at a call.
func (x *tracedExec) try(call testtrace.Call, action testtrace.Action) {
	if action == testtrace.FillDisk && !call.UsesSpace() {
		return
	}
	temp := x.newTemp()
	defer os.RemoveAll(temp)
	stdin, commandInput, err := os.Pipe()
	must.Do(x.t, err)
	defer stdin.Close()
	defer commandInput.Close()
	// The command runs until regcred is killed, unless regcred is to be killed after the command.
	if action == testtrace.FillDisk || call.Number > x.wait || call.Number == x.wait && action == testtrace.KillAfter {
		commandInput.Close()
	}
	limit := time.AfterFunc(20*time.Second, func() { commandInput.Close() })
	defer limit.Stop()
	var at testtrace.Call
	fail := func(format string, args ...any) {
		x.t.Helper()
		x.t.Errorf("action %d at %v: %s", action, call, fmt.Sprintf(format, args...))
	}
	r := x.run(temp, stdin, func(c testtrace.Call) testtrace.Action {
		if c.Name != call.Name || c.Nth != call.Nth {
			return testtrace.Continue
		}
		at = c
		return action
	}, func() {
		if action != testtrace.FillDisk {
			x.next(temp) // while the command may be running
			if err := checkPrivate(temp); err != nil {
				fail("%v", err)
			}
		}
		commandInput.Close()
	})
	switch {
	case at.Number > 0:
		x.tried++
	case strings.HasPrefix(call.Name, "wait"): // signals of Go's scheduler can interrupt this call, so that it is repeated
		return
	default:
		fail("this run has no such call: %s", r.Output)
	}
	if action != testtrace.FillDisk && !r.Killed() && call.Name != "exit_group" {
		fail("regcred was not killed: %s", r.Output)
	}
	if started, complete := strings.Contains(r.Output, "started"), strings.Contains(r.Output, "complete"); started != complete {
		fail("the command lost its files: %s", r.Output)
	} else if r.ExitCode == 0 && !complete {
		fail("the command did not run: %s", r.Output)
	}
	left := must.Get(filepath.Glob(filepath.Join(temp, "*")))(x.t)
	if !r.Killed() && len(left) > 0 && !strings.Contains(r.Output, "remove the command's directory") {
		fail("exit code %d, left: %q: %s", r.ExitCode, left, r.Output)
	}
	x.next(temp)
	if left := must.Get(filepath.Glob(filepath.Join(temp, "*")))(x.t); len(left) > 0 {
		fail("left after the next command: %q", left)
	}
}

// checkPrivate returns an error if other users can read a credential in a directory.
func checkPrivate(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		info, err := os.Lstat(name)
		if err != nil || info.Mode()&fs.ModeSymlink != 0 {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			return fmt.Errorf("%s has mode %v", name, info.Mode())
		}
		if info.IsDir() {
			return nil
		}
		data, err := os.ReadFile(name)
		if bytes.Contains(data, []byte(canary.PasswordSecret)) && info.Mode().Perm() != 0o600 {
			return fmt.Errorf("%s has mode %v", name, info.Mode())
		}
		return err
	})
}
