// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package plugin

import (
	"bufio"
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

	"github.com/regcred/regcred/internal/canary"
)

// patience bounds the wait for something that has to come.
const patience = time.Minute

// fifos are the two named pipes between a test and the processes it started.
type fifos struct {
	env    []string
	goPath string
	lines  chan string // what the processes report; closed when all are gone
}

func newFIFOs(t *testing.T) *fifos {
	t.Helper()
	dir := t.TempDir()
	report, goPath := filepath.Join(dir, "report"), filepath.Join(dir, "go")
	for _, path := range []string{report, goPath} {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := &fifos{
		env:    []string{testReport + "=" + report, testGo + "=" + goPath},
		goPath: goPath,
		lines:  make(chan string, 10),
	}
	go func() {
		defer close(f.lines)
		r, err := os.Open(report) // waits for the first writer
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

// next returns the next report, and ok as false if all processes are gone.
func (f *fifos) next(t *testing.T) (line string, ok bool) {
	t.Helper()
	select {
	case line, ok = <-f.lines:
		return line, ok
	case <-time.After(patience):
		t.Fatal("the processes neither report nor end")
		return "", false
	}
}

// pids reads reports of the form "name PID".
func (f *fifos) pids(t *testing.T, n int) map[string]int {
	t.Helper()
	pids := make(map[string]int)
	for range n {
		line, ok := f.next(t)
		var name string
		var pid int
		if _, err := fmt.Sscanf(line, "%s %d", &name, &pid); !ok || err != nil {
			t.Fatalf("got report %q (more: %v), want a name and a number", line, ok)
		}
		pids[name] = pid
	}
	return pids
}

// allGone fails the test if a process that holds the report FIFO lives on.
func (f *fifos) allGone(t *testing.T) {
	t.Helper()
	if line, ok := f.next(t); ok {
		t.Errorf("a process lives on, and reports %q", line)
	}
}

// goOn lets a waiting process go on.
func (f *fifos) goOn(t *testing.T) {
	t.Helper()
	opened := make(chan error, 1)
	go func() {
		w, err := os.OpenFile(f.goPath, os.O_WRONLY, 0)
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
	case <-time.After(patience):
		t.Fatal("no process waits")
	}
}

type ran struct {
	x   *Exchange
	err error
}

// goRun runs c in the background, with a deadline that the test decides.
func goRun(ctx context.Context, c Command, deadline <-chan time.Time) <-chan ran {
	done := make(chan ran, 1)
	go func() {
		x, err := c.run(limits{ctx: ctx, deadline: deadline, timeout: time.Minute, maxOutput: c.maxOutput()}, testRequest())
		done <- ran{x, err}
	}()
	return done
}

func (f *fifos) wait(t *testing.T, done <-chan ran) (*Exchange, error) {
	t.Helper()
	select {
	case r := <-done:
		return r.x, r.err
	case <-time.After(patience):
		t.Fatal("Run does not return")
		return nil, nil
	}
}

func TestForkedChildLivesOn(t *testing.T) {
	f := newFIFOs(t)
	c := testCommand(t, "fork", append(f.env, testStdout+"="+goodResponse)...)
	x, err := c.Run(t.Context(), testRequest())
	checkRun(t, x, err, "")
	child := f.pids(t, 1)["child"]
	if gone(child) {
		t.Fatal("the child was killed")
	}
	f.goOn(t)
	if line, _ := f.next(t); line != "wrote everything" {
		t.Errorf("the child could not write on: %q", line)
	}
	f.allGone(t)
}

func TestForkedChildOfFailedPluginLivesOn(t *testing.T) {
	f := newFIFOs(t)
	c := testCommand(t, "fork", append(f.env, testExit+"=3")...)
	x, err := c.Run(t.Context(), testRequest())
	checkRun(t, x, err, StageExec)
	f.pids(t, 1)
	f.goOn(t)
	if line, _ := f.next(t); line != "wrote everything" {
		t.Errorf("the child could not write on: %q", line)
	}
	f.allGone(t)
}

func TestForkedChildFinishesAnswer(t *testing.T) {
	f := newFIFOs(t)
	c := testCommand(t, "fork-half", append(f.env, testStdout+"="+goodResponse)...)
	done := goRun(t.Context(), c, nil)
	child := f.pids(t, 1)["child"]
	select {
	case <-done:
		t.Fatal("Run returns with half an answer")
	case <-time.After(3 * grace): // longer than a whole answer is waited for
	}
	f.goOn(t)
	x, err := f.wait(t, done)
	checkRun(t, x, err, "")
	if gone(child) {
		t.Error("the child was killed")
	}
	syscall.Kill(child, syscall.SIGKILL)
	f.allGone(t)
}

func TestDeadlineKillsGroup(t *testing.T) {
	for _, tt := range []struct {
		mode      string
		processes int
		exitCode  int
	}{
		{"hang", 1, -1},      // has answered, and ignores SIGTERM
		{"fork-hang", 2, -1}, // and so does its child
		{"fork-half", 1, 0},  // is gone; its child holds half an answer
	} {
		for _, stage := range []Stage{StageTimeout, StageCanceled} {
			t.Run(tt.mode+" "+string(stage), func(t *testing.T) {
				f := newFIFOs(t)
				c := testCommand(t, tt.mode, append(f.env, testStdout+"="+goodResponse)...)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				deadline := make(chan time.Time, 1)
				done := goRun(ctx, c, deadline)
				pids := f.pids(t, tt.processes)
				if stage == StageTimeout {
					deadline <- time.Time{}
				} else {
					cancel()
				}
				x, err := f.wait(t, done)
				checkRun(t, x, err, stage)
				if stage == StageCanceled != errors.Is(err, context.Canceled) {
					t.Errorf("errors.Is(%v, context.Canceled) is wrong", err)
				}
				if x.ExitCode != tt.exitCode {
					t.Errorf("got exit code %d, want %d", x.ExitCode, tt.exitCode)
				}
				if pid, ok := pids["plugin"]; ok && !gone(pid) {
					t.Error("the plugin lives on")
				}
				f.allGone(t)
			})
		}
	}
}

func TestDeadlineHoldsForEscapedChild(t *testing.T) {
	f := newFIFOs(t)
	c := testCommand(t, "fork-escape", append(f.env, testStdout+"="+goodResponse)...)
	deadline := make(chan time.Time, 1)
	done := goRun(t.Context(), c, deadline)
	pids := f.pids(t, 2)
	deadline <- time.Time{}
	x, err := f.wait(t, done)
	checkRun(t, x, err, StageTimeout)
	if gone(pids["child"]) {
		t.Error("a child in a session of its own was killed; this test shows nothing")
	}
	syscall.Kill(pids["child"], syscall.SIGKILL)
	f.allGone(t)
}

func TestStdoutClosedBeforeExit(t *testing.T) {
	f := newFIFOs(t)
	c := testCommand(t, "close-stdout-early", append(f.env, testStdout+"="+goodResponse)...)
	done := goRun(t.Context(), c, nil)
	f.pids(t, 1)
	select {
	case <-done:
		t.Fatal("Run returns before the plugin has exited")
	default:
	}
	f.goOn(t)
	x, err := f.wait(t, done)
	checkRun(t, x, err, "")
}

func TestReplacedWhileRunning(t *testing.T) {
	f := newFIFOs(t)
	c := testCommand(t, "close-stdout-early", append(f.env, testStdout+"="+goodResponse)...)
	c.Path = copySelf(t, "plug")
	done := goRun(t.Context(), c, nil)
	f.pids(t, 1)
	newer := c.Path + ".new"
	if err := os.WriteFile(newer, []byte("#!/bin/sh\nexit 7\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(newer, c.Path); err != nil {
		t.Fatal(err)
	}
	f.goOn(t)
	x, err := f.wait(t, done)
	checkRun(t, x, err, "")
	x, err = c.Run(t.Context(), testRequest())
	if e := checkRun(t, x, err, StageExec); e.ExitCode != 7 {
		t.Errorf("the second run: got %v, want that of the new plugin", err)
	}
}

func TestFloods(t *testing.T) {
	for _, tt := range []struct {
		mode string
		want Stage
	}{
		{"flood-stdout", StageOutput},
		{"flood-stderr", ""},
	} {
		t.Run(tt.mode, func(t *testing.T) {
			c := testCommand(t, tt.mode, testStdout+"="+goodResponse)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			x, err := c.Run(t.Context(), testRequest())
			runtime.ReadMemStats(&after)
			checkRun(t, x, err, tt.want)
			if got := after.TotalAlloc - before.TotalAlloc; got > 32<<20 {
				t.Errorf("%d bytes were allocated for 1 GiB of output", got)
			}
			if len(x.Stdout.Reveal()) > DefaultMaxOutput || len(x.Stderr) > 2*keep+100 {
				t.Errorf("kept %d bytes of stdout and %d of stderr", len(x.Stdout.Reveal()), len(x.Stderr))
			}
			if tt.mode == "flood-stderr" && !strings.Contains(x.Stderr, fmt.Sprintf("\n(%d bytes omitted)", 1<<30-2*keep)) {
				t.Error("stderr does not say how much was left out")
			}
		})
	}
}

func TestMaxOutput(t *testing.T) {
	c := testCommand(t, "say", testStdout+"="+goodResponse)
	c.MaxOutput = len(goodResponse)
	x, err := c.Run(t.Context(), testRequest())
	checkRun(t, x, err, "")
	c.MaxOutput--
	x, err = c.Run(t.Context(), testRequest())
	e := checkRun(t, x, err, StageOutput)
	if want := fmt.Sprintf("longer than %d bytes", c.MaxOutput); !strings.Contains(e.Error(), want) {
		t.Errorf("got %v, want …%s…", e, want)
	}
	if len(x.Stdout.Reveal()) != c.MaxOutput {
		t.Errorf("kept %d bytes, want %d", len(x.Stdout.Reveal()), c.MaxOutput)
	}
}

func TestTooMuchOutputKills(t *testing.T) {
	f := newFIFOs(t)
	c := testCommand(t, "hang", append(f.env, testStdout+"="+goodResponse)...)
	c.MaxOutput = 10
	done := goRun(t.Context(), c, nil)
	x, err := f.wait(t, done)
	checkRun(t, x, err, StageOutput)
	f.pids(t, 1)
	f.allGone(t)
}

func TestStdinIsClosed(t *testing.T) {
	// The child holds standard input and does not read it.
	f := newFIFOs(t)
	c := testCommand(t, "fork", append(f.env, testStdout+"="+goodResponse)...)
	l := limits{ctx: t.Context(), timeout: time.Minute, maxOutput: c.maxOutput()}
	p, failed := c.start(l)
	if failed != nil {
		t.Fatal(failed.err)
	}
	if failed := p.run(l, strings.NewReader(strings.Repeat("x", 1<<20))); failed != nil {
		t.Fatal(failed.err)
	}
	if err := p.stdin.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("standard input is still open (%v)", err)
	}
	p.release()
	f.pids(t, 1)
	f.goOn(t)
	f.next(t) // it has written everything
	f.allGone(t)
}

func TestHeadTail(t *testing.T) {
	for _, size := range []int{0, 1, keep, keep + 1, 2 * keep, 2*keep + 1, 5*keep + 7} {
		for _, chunk := range []int{1, 7, keep - 1, keep, keep + 1, 3 * keep} {
			data := make([]byte, size)
			for i := range data {
				data[i] = 'a' + byte(i%26)
			}
			var h headTail
			for rest := data; len(rest) > 0; {
				n := min(chunk, len(rest))
				if got, err := h.Write(rest[:n]); got != n || err != nil {
					t.Fatalf("Write: got %d, %v", got, err)
				}
				rest = rest[n:]
			}
			want := string(data)
			if left := size - 2*keep; left > 0 {
				want = fmt.Sprintf("%s\n(%d bytes omitted)\n%s", data[:keep], left, data[size-keep:])
			}
			if got := h.text(nil); got != want {
				t.Errorf("size %d, chunk %d: got %d bytes, want %d", size, chunk, len(got), len(want))
			}
			if cap(h.tail) > 8*keep {
				t.Errorf("size %d, chunk %d: the tail takes %d bytes", size, chunk, cap(h.tail))
			}
		}
	}
}

func TestSecretsAcrossTheCut(t *testing.T) {
	// The secret begins at every distance from both ends of what is left out.
	for shift := range 2 * len(canary.Token) {
		for _, at := range []int{keep - shift, 3*keep - shift} {
			text := []byte(strings.Repeat(".", 4*keep))
			copy(text[at:], canary.Token)
			var h headTail
			h.Write(text)
			got := h.text(unnamed([]string{canary.Token}))
			for n := 4; n <= len(canary.Token); n++ {
				if strings.Contains(got, canary.Token[:n]) || strings.Contains(got, canary.Token[len(canary.Token)-n:]) {
					t.Fatalf("%d bytes of the secret at %d are left", n, at)
				}
			}
		}
	}
}
