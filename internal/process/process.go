// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package process runs a program with a deadline and a limit on its output,
// whatever the program does. It uses no shell, does not search PATH, and does not
// interpret input and output.
//
//	res, err := process.Command{
//		Path: "/opt/bin/program", Environ: os.Environ(), Timeout: time.Minute, MaxOutput: 1 << 20,
//	}.Run(ctx, strings.NewReader("input"))
package process

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// Command is a program to run, with its limits. Only Path is required, but the run fails at
// once if Timeout is 0, and on any output if MaxOutput is 0.
type Command struct {
	Path    string   // the executable; a name without a separator is a file in Dir
	Args    []string // arguments after the program name
	Environ []string // the complete environment, as "key=value"
	Dir     string   // working directory; "" means the current directory

	Timeout   time.Duration
	MaxOutput int           // limit on standard output in bytes
	Grace     time.Duration // from SIGTERM to SIGKILL; 0 means no SIGTERM
}

// Result describes a run.
type Result struct {
	Stdout   []byte // at most MaxOutput bytes
	Stderr   HeadTail
	State    *os.ProcessState // nil if the program did not start or has not exited
	Started  time.Time        // zero if the program did not start
	Duration time.Duration

	// ChildHoldsOutput reports whether the program exited while one of its child processes
	// still held its standard output or standard error.
	ChildHoldsOutput bool
}

// ExitCode returns the exit code, or -1 if the program did not exit on its own.
func (r *Result) ExitCode() int {
	if r.State == nil {
		return -1
	}
	return r.State.ExitCode()
}

// FailureReason describes why a run failed.
type FailureReason int

// Reasons why a run fails.
const (
	ReasonNotStarted    FailureReason = iota + 1
	ReasonExited                      // with a non-zero status, or killed by another process
	ReasonTimedOut                    // killed at the deadline
	ReasonCanceled                    // killed because ctx was done
	ReasonOutputTooLong               // killed because it wrote more than MaxOutput bytes
)

// Error is returned when a run fails.
type Error struct {
	Reason FailureReason
	Err    error // the cause
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Run runs the program once and returns when its output is complete. The Result is
// never nil. Errors are of type [*Error].
//
//   - At the deadline, when ctx ends, or when standard output exceeds MaxOutput,
//     Run kills the process group. It then returns, even if a process outside the
//     group still holds the pipes. Windows has no process groups, so only the
//     program is killed there.
//   - Otherwise processes that the program started continue to run, except with
//     [WithGroupKilled]. Their output is read and discarded for ten minutes.
//   - Run does not wait for stdin. A reader that blocks is abandoned together with
//     the goroutine that reads it.
func (c Command) Run(ctx context.Context, stdin io.Reader) (*Result, error) {
	deadline := time.NewTimer(c.Timeout)
	defer deadline.Stop()
	return c.run(runLimits{ctx, deadline.C}, stdin)
}

// runLimits holds the events that end a run before the program exits.
type runLimits struct {
	ctx      context.Context
	deadline <-chan time.Time
}

func (c Command) run(l runLimits, stdin io.Reader) (*Result, error) {
	begun := time.Now()
	p, err := c.startProgram(l)
	if err != nil {
		return &Result{Duration: time.Since(begun)}, err
	}
	failed := p.writeAndWait(l, stdin)
	if l.ctx.Value(groupKilled{}) != nil {
		defer killGroup(p.cmd.Process)
	}
	res := &Result{Started: p.started, Duration: time.Since(p.started)}
	if res.ChildHoldsOutput = (failed == nil || failed.Reason == ReasonExited) && !isClosed(p.groupExited); res.ChildHoldsOutput {
		p.drainOutput(drainTimeout)
	}
	if isClosed(p.exited) {
		res.State = p.cmd.ProcessState
	}
	res.Stdout, res.Stderr = p.takeOutput()
	if failed != nil {
		return res, failed
	}
	return res, nil
}

func (c Command) timeoutError() *Error {
	return &Error{ReasonTimedOut, fmt.Errorf("no response within %v: %w", c.Timeout, context.DeadlineExceeded)}
}

func canceledError(ctx context.Context) *Error {
	return &Error{ReasonCanceled, fmt.Errorf("canceled: %w", ctx.Err())}
}

type groupKilled struct{}

// WithGroupKilled returns a context for a test of a program: [Command.Run] then also kills the
// process group of a program that has exited.
func WithGroupKilled(ctx context.Context) context.Context {
	return context.WithValue(ctx, groupKilled{}, true)
}

// KillGroupOnCancel makes cmd kill its whole process group, instead of only the program,
// when its context is done.
func KillGroupOnCancel(cmd *exec.Cmd) {
	cmd.SysProcAttr = NewGroupAttr()
	cmd.Cancel = func() error {
		killGroup(cmd.Process)
		return nil
	}
}
