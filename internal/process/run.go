// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package process

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/regcred/regcred/internal/regularfile"
)

// pipeCloseTimeout is the polling interval after the program exits. If the pipes are still open
// after one to two intervals, a child process holds them.
const pipeCloseTimeout = 250 * time.Millisecond

// drainTimeout is how long output is read if a child process outlives the program. Until
// then, the run uses two descriptors and three goroutines. A process that writes later gets
// SIGPIPE or EPIPE.
const drainTimeout = 10 * time.Minute

// runningProgram is a started program. It uses its own pipes, because with the pipes of
// os/exec, Wait does not return until every process that holds them has closed them.
type runningProgram struct {
	command      Command
	cmd          *exec.Cmd
	started      time.Time
	exited       chan struct{} // closed when the program has exited and cmd.ProcessState is set
	groupExited  chan struct{} // closed when the program has exited and no process holds its pipes
	stdin        *os.File
	stdout       *pipeReader
	stderr       *pipeReader
	stdoutBuffer *boundedBuffer
	stderrBuffer *HeadTail
}

// startWithPipes starts cmd with three new pipes.
func (c Command) startWithPipes() (*runningProgram, error) {
	var ends []*os.File
	closeAll := func() {
		for _, f := range ends {
			f.Close()
		}
	}
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll()
			return nil, err
		}
		ends = append(ends, r, w)
	}
	cmd := c.execCmd()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = ends[0], ends[3], ends[5]
	if err := cmd.Start(); err != nil {
		closeAll()
		return nil, err
	}
	for _, child := range []int{0, 3, 5} {
		ends[child].Close()
	}
	p := &runningProgram{
		command:      c,
		cmd:          cmd,
		started:      time.Now(),
		exited:       make(chan struct{}),
		groupExited:  make(chan struct{}),
		stdin:        ends[1],
		stdoutBuffer: &boundedBuffer{max: c.MaxOutput, exceeded: make(chan struct{})},
		stderrBuffer: &HeadTail{},
	}
	p.stdout, p.stderr = newPipeReader(ends[2], p.stdoutBuffer), newPipeReader(ends[4], p.stderrBuffer)
	go watchExit(cmd, p.exited, p.groupExited, p.stdout.eof, p.stderr.eof)
	return p, nil
}

// watchExit closes exited when cmd exits, and settled when all streams have ended too. It
// has no reference to the output, so that the output can be freed earlier.
func watchExit(cmd *exec.Cmd, exited, settled chan<- struct{}, streams ...<-chan struct{}) {
	cmd.Wait() // the exit status is in cmd.ProcessState
	close(exited)
	for _, eof := range streams {
		<-eof
	}
	close(settled)
}

// writeAndWait writes stdin to the program and returns when its output is complete or
// the run has failed.
func (p *runningProgram) writeAndWait(l runLimits, stdin io.Reader) *Error {
	defer p.stdin.Close() // unblocks a write that the program never reads
	go func() {
		// A program may ignore its input, so a failed write is not an error.
		io.Copy(p.stdin, stdin)
		p.stdin.Close()
	}()
	failed := p.waitForExit(l)
	if failed != nil && failed.Reason != ReasonExited {
		if failed.Reason != ReasonOutputTooLong {
			p.terminateAndWait()
		}
		p.killGroup()
	}
	return failed
}

// waitForExit returns when the program has exited and its output is complete.
func (p *runningProgram) waitForExit(l runLimits) *Error {
	ticker := time.NewTicker(pipeCloseTimeout)
	defer ticker.Stop()
	exited, checked := false, 0
	for {
		select {
		case <-p.stdoutBuffer.exceeded:
			return p.outputTooLongError()
		case <-l.ctx.Done():
			return canceledError(l.ctx)
		case <-l.deadline:
			return p.command.timeoutError()
		case <-p.groupExited:
			return p.exitError()
		case <-ticker.C:
			if !isClosed(p.exited) {
				continue
			}
			if !exited {
				exited = true // pipeCloseTimeout begins
				continue
			}
			// A child process holds the pipes. The output is complete if the program
			// failed, closed standard output or wrote a complete JSON value. Otherwise
			// the child process may still write the rest.
			if isClosed(p.stdout.eof) || !p.cmd.ProcessState.Success() {
				return p.exitError()
			}
			if n := p.stdoutBuffer.len(); n != checked {
				checked = n
				if p.stdoutBuffer.isJSON() {
					return p.exitError()
				}
			}
		}
	}
}

// exitError returns why a program that exited has failed, or nil if it succeeded.
func (p *runningProgram) exitError() *Error {
	if isClosed(p.stdoutBuffer.exceeded) {
		return p.outputTooLongError()
	}
	if state := p.cmd.ProcessState; !state.Success() {
		return &Error{ReasonExited, fmt.Errorf("%v", state)}
	}
	return nil
}

func (p *runningProgram) outputTooLongError() *Error {
	return &Error{ReasonOutputTooLong, &regularfile.LimitError{Msg: fmt.Sprintf("standard output is longer than %d bytes", p.stdoutBuffer.max)}}
}

// terminateAndWait sends SIGTERM and waits at most Grace for the program to exit.
func (p *runningProgram) terminateAndWait() {
	if p.command.Grace <= 0 || !terminateGroup(p.cmd.Process) {
		return
	}
	timer := time.NewTimer(p.command.Grace)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
	}
}

// killGroup kills the process group and stops reading. It does not wait for
// processes that have left the group.
func (p *runningProgram) killGroup() {
	killGroup(p.cmd.Process)
	timer := time.NewTimer(pipeCloseTimeout)
	defer timer.Stop()
	// Wait briefly for the exit status and the end of standard error.
	for _, done := range []<-chan struct{}{p.exited, p.stderr.eof} {
		select {
		case <-done:
		case <-timer.C:
			timer.Reset(0)
		}
	}
	p.stdout.close()
	p.stderr.close()
}

// drainOutput keeps reading until the limit, so that a child process that outlives the
// program is not killed by a closed pipe.
func (p *runningProgram) drainOutput(limit time.Duration) {
	stdout, stderr, settled := p.stdout, p.stderr, p.groupExited
	timer := time.AfterFunc(limit, func() {
		stdout.close()
		stderr.close()
	})
	go func() {
		<-settled
		timer.Stop()
	}()
}

// takeOutput returns the output so far. Any later output is discarded.
func (p *runningProgram) takeOutput() (stdout []byte, stderr HeadTail) {
	p.stdout.dropSink()
	p.stderr.dropSink()
	return p.stdoutBuffer.buf, *p.stderrBuffer
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// isJSON reports whether the output is one complete JSON value.
func (b *boundedBuffer) isJSON() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return json.Valid(b.buf)
}
