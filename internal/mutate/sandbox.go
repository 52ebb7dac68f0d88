// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A sandbox is where mutated tests run: code that was made wrong on purpose,
// and that may remove or send what it should not.
type sandbox struct {
	work    string // the one directory that they may write to, beside the build cache
	cache   string
	goflags string
	confine bool // in namespaces: nothing but loopback, nothing else to write to, no process left
}

// confined runs a command in namespaces of its own. The shell stays the first
// process there: it waits for those whose parents ended.
const confined = `
ip link set lo up || exit 125
for dir in "$MUTATE_WORK" "$MUTATE_CACHE"; do mount --bind "$dir" "$dir" || exit 125; done
mount -o remount,bind,ro / || exit 125
cd "$MUTATE_DIR" || exit 125
unset MUTATE_WORK MUTATE_CACHE MUTATE_DIR
nice -n 10 "$@"
exit $?
`

func newSandbox(ctx context.Context) (*sandbox, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOCACHE", "GOFLAGS").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	cache, goflags, _ := strings.Cut(string(out), "\n")
	work, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return nil, err
	}
	s := &sandbox{work: work, cache: cache, goflags: strings.TrimSpace(goflags), confine: os.Geteuid() == 0}
	if err := errors.Join(os.Chmod(work, 0o755), os.MkdirAll(s.tmp(), 0o755)); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if s.confine {
		_, err := s.run(ctx, work, nil, time.Minute, "true")
		s.confine = err == nil
	}
	return s, nil
}

func (s *sandbox) tmp() string { return filepath.Join(s.work, "tmp") }

func (s *sandbox) close() error {
	// A test may have left a directory that nobody may write to.
	_ = filepath.WalkDir(s.work, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o755)
		}
		return nil
	})
	return os.RemoveAll(s.work)
}

func (s *sandbox) describe() string {
	if s.confine {
		return "in separate namespaces: loopback only, and a read-only file system with a writable temporary directory"
	}
	return "NOT confined, which needs Linux, root, unshare and ip: mutated code can write and send what the tests' user can"
}

var errTimeout = errors.New("timed out")

// run runs a command in the sandbox and ends all that it started. The output
// comes back with any error: errTimeout, or that it ended with another status
// than 0.
func (s *sandbox) run(ctx context.Context, dir string, env []string, limit time.Duration, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer cancel()
	// Each run has a temporary directory that is empty, and its own.
	if err := errors.Join(os.RemoveAll(s.tmp()), os.Mkdir(s.tmp(), 0o755)); err != nil {
		return nil, err
	}
	env = append(os.Environ(), append(env, "TMPDIR="+s.tmp())...)
	if s.confine {
		env = append(env, "MUTATE_WORK="+s.work, "MUTATE_CACHE="+s.cache, "MUTATE_DIR="+dir, "GOPROXY=off")
		args = append([]string{
			"unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", confined, "sh",
		}, args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // those that it left behind
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return out.Bytes(), err
}
