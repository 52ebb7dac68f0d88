// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package process

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
)

// eventTimeout is how long a test waits for an event that must occur.
const eventTimeout = time.Minute

// testPipes holds the two named pipes between a test and the programs that it starts. One receives
// their reports, and the other lets them continue.
type testPipes struct {
	env        []string
	resumePath string
	lines      chan string // reports of the programs; closed when all programs have exited
}

func newTestPipes(t *testing.T) *testPipes {
	t.Helper()
	dir := t.TempDir()
	report, goPath := filepath.Join(dir, "report"), filepath.Join(dir, "go")
	for _, path := range []string{report, goPath} {
		must.Do(t, syscall.Mkfifo(path, 0o600))
	}
	f := &testPipes{
		env:        []string{envReportPipe + "=" + report, envResumePipe + "=" + goPath},
		resumePath: goPath,
		lines:      make(chan string, 10),
	}
	go func() {
		defer close(f.lines)
		r, err := os.Open(report) // blocks until a program opens the pipe
		if err != nil {
			return
		}
		defer r.Close()
		for s := bufio.NewScanner(r); s.Scan(); {
			f.lines <- s.Text()
		}
	}()
	return f
}

// nextReport returns the next report. ok is false if all programs have exited.
func (f *testPipes) nextReport(t *testing.T) (line string, ok bool) {
	t.Helper()
	select {
	case line, ok = <-f.lines:
		return line, ok
	case <-time.After(eventTimeout):
		t.Fatal("the processes neither report nor end")
		return "", false
	}
}

// readPIDs reads n reports of the form "name PID".
func (f *testPipes) readPIDs(t *testing.T, n int) map[string]int {
	t.Helper()
	pids := make(map[string]int)
	for range n {
		line, ok := f.nextReport(t)
		var name string
		var pid int
		if _, err := fmt.Sscanf(line, "%s %d", &name, &pid); !ok || err != nil {
			t.Fatalf("got report %q (more: %v), want a name and a number", line, ok)
		}
		pids[name] = pid
	}
	return pids
}

// checkAllExited fails the test if a program that opened the report pipe is still running.
func (f *testPipes) checkAllExited(t *testing.T) {
	t.Helper()
	if line, ok := f.nextReport(t); ok {
		t.Errorf("a process lives on, and reports %q", line)
	}
}

// resumeProgram lets a program continue that waits in waitForResume.
func (f *testPipes) resumeProgram(t *testing.T) {
	t.Helper()
	opened := make(chan error, 1)
	go func() {
		w, err := os.OpenFile(f.resumePath, os.O_WRONLY, 0)
		if err == nil {
			w.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(eventTimeout):
		t.Fatal("no process waits")
	}
}

type runResult struct {
	x   *Result
	err error
}

// checkRun fails the test unless the run failed for the wanted reason. A wanted reason of 0 means
// that err must be nil.
func checkRun(t *testing.T, x *Result, err error, want FailureReason) {
	t.Helper()
	if x == nil {
		t.Fatal("no Result")
	}
	var got FailureReason
	if failed, ok := errors.AsType[*Error](err); ok {
		got = failed.Reason
	} else if err != nil {
		t.Fatalf("got error %v of type %T", err, err)
	}
	if got != want {
		t.Fatalf("got reason %d (%v), want %d", got, err, want)
	}
}

// isGone reports whether no process has this process ID.
func isGone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// runInBackground runs c in the background. The test determines when the deadline is reached.
func runInBackground(ctx context.Context, c Command, deadline <-chan time.Time) <-chan runResult {
	done := make(chan runResult, 1)
	go func() {
		x, err := c.run(runLimits{ctx, deadline}, strings.NewReader("request"))
		done <- runResult{x, err}
	}()
	return done
}

func (f *testPipes) waitResult(t *testing.T, done <-chan runResult) (*Result, error) {
	t.Helper()
	select {
	case r := <-done:
		return r.x, r.err
	case <-time.After(eventTimeout):
		t.Fatal("Run does not return")
		return nil, nil
	}
}

func TestForkedChildLivesOn(t *testing.T) {
	f := newTestPipes(t)
	c := testCommand(t, "fork", append(f.env, testStdout+"="+programOutput)...)
	x, err := c.Run(t.Context(), strings.NewReader("request"))
	checkRun(t, x, err, 0)
	child := f.readPIDs(t, 1)["child"]
	if isGone(child) {
		t.Fatal("the child was killed")
	}
	f.resumeProgram(t)
	if line, _ := f.nextReport(t); line != "wrote everything" {
		t.Errorf("the child could not write on: %q", line)
	}
	f.checkAllExited(t)
}

// TestForkedChildKilled verifies that WithGroupKilled ends a child process that the program left
// running.
func TestForkedChildKilled(t *testing.T) {
	f := newTestPipes(t)
	c := testCommand(t, "fork", append(f.env, testStdout+"="+programOutput)...)
	x, err := c.Run(WithGroupKilled(t.Context()), strings.NewReader("request"))
	checkRun(t, x, err, 0)
	if string(x.Stdout) != programOutput {
		t.Errorf("output %q", x.Stdout)
	}
	f.readPIDs(t, 1)
	f.checkAllExited(t)
}

func TestForkedChildOfFailedPluginLivesOn(t *testing.T) {
	f := newTestPipes(t)
	c := testCommand(t, "fork", append(f.env, testExit+"=3")...)
	x, err := c.Run(t.Context(), strings.NewReader("request"))
	checkRun(t, x, err, ReasonExited)
	f.readPIDs(t, 1)
	f.resumeProgram(t)
	if line, _ := f.nextReport(t); line != "wrote everything" {
		t.Errorf("the child could not write on: %q", line)
	}
	f.checkAllExited(t)
}

func TestForkedChildFinishesAnswer(t *testing.T) {
	f := newTestPipes(t)
	c := testCommand(t, "fork-half", append(f.env, testStdout+"="+programOutput)...)
	done := runInBackground(t.Context(), c, nil)
	child := f.readPIDs(t, 1)["child"]
	select {
	case <-done:
		t.Fatal("Run returns with half a response")
	case <-time.After(3 * pipeCloseTimeout): // longer than the wait for a complete response
	}
	f.resumeProgram(t)
	x, err := f.waitResult(t, done)
	checkRun(t, x, err, 0)
	if isGone(child) {
		t.Error("the child was killed")
	}
	syscall.Kill(child, syscall.SIGKILL)
	f.checkAllExited(t)
}

func TestDeadlineKillsGroup(t *testing.T) {
	for _, tt := range []struct {
		mode      string
		processes int
		exitCode  int
	}{
		{"hang", 1, -1},      // writes a complete response and ignores SIGTERM
		{"fork-hang", 2, -1}, // the program and its child keep running
		{"fork-half", 1, 0},  // the program has exited; its child has not written the rest of the response
	} {
		for _, stage := range []FailureReason{ReasonTimedOut, ReasonCanceled} {
			t.Run(tt.mode+" "+fmt.Sprint(stage), func(t *testing.T) {
				f := newTestPipes(t)
				c := testCommand(t, tt.mode, append(f.env, testStdout+"="+programOutput)...)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				deadline := make(chan time.Time, 1)
				done := runInBackground(ctx, c, deadline)
				pids := f.readPIDs(t, tt.processes)
				if stage == ReasonTimedOut {
					deadline <- time.Time{}
				} else {
					cancel()
				}
				x, err := f.waitResult(t, done)
				checkRun(t, x, err, stage)
				if stage == ReasonCanceled != errors.Is(err, context.Canceled) {
					t.Errorf("errors.Is(%v, context.Canceled) is wrong", err)
				}
				if x.ExitCode() != tt.exitCode {
					t.Errorf("got exit code %d, want %d", x.ExitCode(), tt.exitCode)
				}
				if pid, ok := pids["plugin"]; ok && !isGone(pid) {
					t.Error("the plugin lives on")
				}
				f.checkAllExited(t)
			})
		}
	}
}

func TestDeadlineHoldsForEscapedChild(t *testing.T) {
	f := newTestPipes(t)
	c := testCommand(t, "fork-escape", append(f.env, testStdout+"="+programOutput)...)
	deadline := make(chan time.Time, 1)
	done := runInBackground(t.Context(), c, deadline)
	pids := f.readPIDs(t, 2)
	deadline <- time.Time{}
	x, err := f.waitResult(t, done)
	checkRun(t, x, err, ReasonTimedOut)
	if isGone(pids["child"]) {
		t.Error("a child in its own session was killed; this test proves nothing")
	}
	syscall.Kill(pids["child"], syscall.SIGKILL)
	f.checkAllExited(t)
}

func TestStdoutClosedBeforeExit(t *testing.T) {
	f := newTestPipes(t)
	c := testCommand(t, "close-stdout-early", append(f.env, testStdout+"="+programOutput)...)
	done := runInBackground(t.Context(), c, nil)
	f.readPIDs(t, 1)
	select {
	case <-done:
		t.Fatal("Run returns before the plugin has exited")
	default:
	}
	f.resumeProgram(t)
	x, err := f.waitResult(t, done)
	checkRun(t, x, err, 0)
}

func TestReplacedWhileRunning(t *testing.T) {
	f := newTestPipes(t)
	c := testCommand(t, "close-stdout-early", append(f.env, testStdout+"="+programOutput)...)
	c.Path = copySelf(t, "plug")
	done := runInBackground(t.Context(), c, nil)
	f.readPIDs(t, 1)
	newer := c.Path + ".new"
	must.Do(t, os.WriteFile(newer, []byte("#!/bin/sh\nexit 7\n"), 0o755))
	must.Do(t, os.Rename(newer, c.Path))
	f.resumeProgram(t)
	x, err := f.waitResult(t, done)
	checkRun(t, x, err, 0)
	x, err = c.Run(t.Context(), strings.NewReader("request"))
	if checkRun(t, x, err, ReasonExited); x.ExitCode() != 7 {
		t.Errorf("the second run: got %v, want the new plugin's", err)
	}
}

func TestFloods(t *testing.T) {
	for _, tt := range []struct {
		mode string
		want FailureReason
	}{
		{"flood-stdout", ReasonOutputTooLong},
		{"flood-stderr", 0},
	} {
		t.Run(tt.mode, func(t *testing.T) {
			c := testCommand(t, tt.mode, testStdout+"="+programOutput)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			x, err := c.Run(t.Context(), strings.NewReader("request"))
			runtime.ReadMemStats(&after)
			checkRun(t, x, err, tt.want)
			if got := after.TotalAlloc - before.TotalAlloc; got > 32<<20 {
				t.Errorf("%d bytes were allocated for 1 GiB of output", got)
			}
			if len(x.Stdout) > c.MaxOutput || len(x.Stderr.Head)+len(x.Stderr.Tail) > 2*HeadTailSize {
				t.Errorf("kept %d bytes of stdout and %d of stderr", len(x.Stdout), len(x.Stderr.Head)+len(x.Stderr.Tail))
			}
			if want := int64(1<<30 - 2*HeadTailSize); tt.mode == "flood-stderr" && x.Stderr.Omitted != want {
				t.Errorf("%d bytes of stderr are omitted, want %d", x.Stderr.Omitted, want)
			}
		})
	}
}

func TestMaxOutput(t *testing.T) {
	c := testCommand(t, "say", testStdout+"="+programOutput)
	c.MaxOutput = len(programOutput)
	x, err := c.Run(t.Context(), strings.NewReader("request"))
	checkRun(t, x, err, 0)
	c.MaxOutput--
	x, err = c.Run(t.Context(), strings.NewReader("request"))
	checkRun(t, x, err, ReasonOutputTooLong)
	if want := fmt.Sprintf("longer than %d bytes", c.MaxOutput); !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want …%s…", err, want)
	}
	if len(x.Stdout) != c.MaxOutput {
		t.Errorf("kept %d bytes, want %d", len(x.Stdout), c.MaxOutput)
	}
}

func TestTooMuchOutputKills(t *testing.T) {
	f := newTestPipes(t)
	c := testCommand(t, "hang", append(f.env, testStdout+"="+programOutput)...)
	c.MaxOutput = 10
	done := runInBackground(t.Context(), c, nil)
	x, err := f.waitResult(t, done)
	checkRun(t, x, err, ReasonOutputTooLong)
	f.readPIDs(t, 1)
	f.checkAllExited(t)
}

func TestStdinIsClosed(t *testing.T) {
	// The child holds standard input but does not read it.
	f := newTestPipes(t)
	c := testCommand(t, "fork", append(f.env, testStdout+"="+programOutput)...)
	l := runLimits{ctx: t.Context()}
	p := must.Get(c.startProgram(l))(t)
	if failed := p.writeAndWait(l, strings.NewReader(strings.Repeat("x", 1<<20))); failed != nil {
		t.Fatal(failed)
	}
	if err := p.stdin.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("standard input is still open (%v)", err)
	}
	p.takeOutput()
	f.readPIDs(t, 1)
	f.resumeProgram(t)
	f.nextReport(t) // it has written all output
	f.checkAllExited(t)
}

// TestHeadTailEveryLength verifies Head, Tail and Omitted for outputs around the size limits, in
// one write and byte by byte.
func TestHeadTailEveryLength(t *testing.T) {
	for _, n := range []int{0, 1, HeadTailSize - 1, HeadTailSize, HeadTailSize + 1, 2*HeadTailSize - 1, 2 * HeadTailSize, 2*HeadTailSize + 1, 3*HeadTailSize + 7} {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte('a' + i%26)
		}
		var whole, parts HeadTail
		_, _ = whole.Write(data)
		for rest := data; len(rest) > 0; {
			size := min(1000, len(rest))
			if wrote, err := parts.Write(rest[:size]); wrote != size || err != nil {
				t.Fatalf("Write = %d, %v", wrote, err)
			}
			rest = rest[size:]
		}
		dropped := max(0, n-2*HeadTailSize)
		want := HeadTail{Head: data[:min(n, HeadTailSize)], Tail: data[min(n, HeadTailSize)+dropped:], Omitted: int64(dropped)}
		for name, got := range map[string]HeadTail{"one write": whole, "many": parts} {
			if !bytes.Equal(got.Head, want.Head) || !bytes.Equal(got.Tail, want.Tail) || got.Omitted != want.Omitted {
				t.Errorf("%d bytes in %s: %d + %d, %d dropped", n, name, len(got.Head), len(got.Tail), got.Omitted)
			}
		}
	}
}

// TestGraceSendsOneSignal checks that a program gets only one SIGTERM, both at the deadline and
// when ctx ends. A second SIGTERM would kill a program that handles only the first.
func TestGraceSendsOneSignal(t *testing.T) {
	for _, reason := range []FailureReason{ReasonTimedOut, ReasonCanceled} {
		f := newTestPipes(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := testCommand(t, "count-sigterm", f.env...)
		c.Grace = eventTimeout
		deadline := make(chan time.Time, 1)
		done := runInBackground(ctx, c, deadline)
		f.readPIDs(t, 1)
		if reason == ReasonTimedOut {
			deadline <- time.Now()
		} else {
			cancel()
		}
		x, err := f.waitResult(t, done)
		checkRun(t, x, err, reason)
		if got := string(x.Stderr.Head); x.ExitCode() != 0 || got != "SIGTERM\n" {
			t.Errorf("got exit code %d with stderr %q, want one SIGTERM", x.ExitCode(), got)
		}
	}
}

// TestGraceEnds checks that a program that ignores SIGTERM is killed after Grace.
func TestGraceEnds(t *testing.T) {
	f := newTestPipes(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := testCommand(t, "hang", f.env...)
	c.Grace = time.Millisecond
	done := runInBackground(ctx, c, nil)
	f.readPIDs(t, 1)
	cancel()
	x, err := f.waitResult(t, done)
	checkRun(t, x, err, ReasonCanceled)
	if x.ExitCode() != -1 {
		t.Errorf("got exit code %d, want it killed", x.ExitCode())
	}
	f.checkAllExited(t)
}

func TestChildHoldsStdout(t *testing.T) {
	x, err := testCommand(t, "say", testStdout+"="+programOutput).Run(t.Context(), strings.NewReader("request"))
	checkRun(t, x, err, 0)
	if x.ChildHoldsOutput {
		t.Error("Lingering is set without a child process")
	}
	for name, exit := range map[string]string{"after an answer": "0", "after a failure": "3"} {
		t.Run(name, func(t *testing.T) {
			f := newTestPipes(t)
			c := testCommand(t, "fork", append(f.env, testStdout+"="+programOutput, testExit+"="+exit)...)
			x, _ := c.Run(t.Context(), strings.NewReader("request"))
			if !x.ChildHoldsOutput {
				t.Error("the child that holds standard output was not noticed")
			}
			f.readPIDs(t, 1)
			f.resumeProgram(t)
			f.nextReport(t) // it has written all output
			f.checkAllExited(t)
		})
	}
}
