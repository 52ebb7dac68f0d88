// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
)

// readyTimeout limits a component's start. It allows for a busy machine.
const readyTimeout = 90 * time.Second

// testProcess is a component that can be started, killed and started again.
type testProcess struct {
	dir     string   // working directory, and home
	environ []string // variables in addition to PATH and HOME
	program string
	log     string // file with stdout and stderr of all runs

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has exited
}

// newProcess returns a process that is killed when the test ends. If the test fails, the
// end of the process's log is shown.
func newProcess(t testing.TB, dir string, environ []string, program string) *testProcess {
	p := &testProcess{dir: dir, environ: environ, program: program, log: filepath.Join(dir, filepath.Base(program)+".log")}
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("the end of %s:\n%s", filepath.Base(p.log), p.logTail(40))
		}
	})
	return p
}

func (p *testProcess) start(t testing.TB, args ...string) {
	t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd, done := exec.Command(p.program, args...), make(chan struct{})
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir}, p.environ...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(done)
		cmd.Wait()
	}()
	p.cmd, p.done = cmd, done
}

// stop kills the process without a graceful shutdown, and waits for it.
func (p *testProcess) stop() {
	if p.cmd == nil {
		return // it never started
	}
	p.cmd.Process.Kill()
	<-p.done
}

// waitReady waits until ready returns nil.
func (p *testProcess) waitReady(t testing.TB, ready func(context.Context) error) {
	t.Helper()
	err := pollUntil(t.Context(), readyTimeout, func(ctx context.Context) error {
		select {
		case <-p.done:
			return stopError{errors.New("it has ended")}
		default:
			return ready(ctx)
		}
	})
	if err != nil {
		t.Fatalf("%s does not become ready: %v", filepath.Base(p.program), err)
	}
}

// logTail returns the last lines of the log, with secrets masked.
func (p *testProcess) logTail(lines int) string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return maskLines(all[max(0, len(all)-lines):])
}

// matchingLogLines returns the lines of the log that contain all texts.
func (p *testProcess) matchingLogLines(t testing.TB, texts ...string) []string {
	t.Helper()
	return matchingLines(t, p.log, texts...)
}

var tokenPattern = regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`)

// maskLines joins log lines and masks secrets.
func maskLines(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		if canary.FindMarker(line) != "" {
			line = "(a line with a secret)"
		}
		fmt.Fprintln(&b, tokenPattern.ReplaceAllString(line, "(a token)"))
	}
	return b.String()
}

// Eventually waits until check returns nil. On timeout, it fails the test with check's
// last error.
func Eventually(t testing.TB, timeout time.Duration, check func(context.Context) error) {
	t.Helper()
	if err := pollUntil(t.Context(), timeout, check); err != nil {
		t.Fatalf("after %v: %v", timeout, err)
	}
}

// stopError is an error that ends polling.
type stopError struct{ error }

func pollUntil(ctx context.Context, timeout time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var last error
	for {
		err := check(ctx)
		if err == nil || errors.As(err, new(stopError)) {
			return err
		}
		if ctx.Err() == nil || last == nil {
			last = err // keep the real error rather than the timeout
		}
		select {
		case <-ctx.Done():
			return last
		case <-time.After(100 * time.Millisecond):
		}
	}
}
