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
)

// closeTime is how long a program that has exited may leave its pipes open.
// After up to twice that time, a process that it started must hold them.
const closeTime = 250 * time.Millisecond

// drainTime is how long the output of processes that outlive the program is
// read. Each such program costs two descriptors and three goroutines until
// then. A process that writes later gets SIGPIPE or EPIPE.
const drainTime = 10 * time.Minute

// running is a started program. It has its own pipes: with the pipes of os/exec,
// Wait returns only when every process that holds them has closed them.
type running struct {
	command Command
	cmd     *exec.Cmd
	started time.Time
	exited  chan struct{} // closed when the program has exited and cmd.ProcessState is set
	settled chan struct{} // closed when the program has exited and no process holds its pipes
	stdin   *os.File
	stdout  *stream
	stderr  *stream
	out     *bounded
	err     *HeadTail
}

// spawn starts cmd with three new pipes.
func (c Command) spawn() (*running, error) {
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
	cmd := c.cmd()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = ends[0], ends[3], ends[5]
	if err := cmd.Start(); err != nil {
		closeAll()
		return nil, err
	}
	for _, child := range []int{0, 3, 5} {
		ends[child].Close()
	}
	p := &running{
		command: c,
		cmd:     cmd,
		started: time.Now(),
		exited:  make(chan struct{}),
		settled: make(chan struct{}),
		stdin:   ends[1],
		out:     &bounded{max: c.MaxOutput, over: make(chan struct{})},
		err:     &HeadTail{},
	}
	p.stdout, p.stderr = newStream(ends[2], p.out), newStream(ends[4], p.err)
	go settle(cmd, p.exited, p.settled, p.stdout.eof, p.stderr.eof)
	return p, nil
}

// settle closes exited when cmd has exited, and settled when the streams have
// ended too. It does not refer to the output, so that it can be freed earlier.
func settle(cmd *exec.Cmd, exited, settled chan<- struct{}, streams ...<-chan struct{}) {
	cmd.Wait() // the status is in cmd.ProcessState
	close(exited)
	for _, eof := range streams {
		<-eof
	}
	close(settled)
}

// run writes stdin to the program and returns when its output is complete or
// the run has failed.
func (p *running) run(l limits, stdin io.Reader) *Error {
	defer p.stdin.Close() // ends a write that the program does not read
	go func() {
		// A program need not read its input, so a failed write is not an error.
		io.Copy(p.stdin, stdin)
		p.stdin.Close()
	}()
	failed := p.wait(l)
	if failed != nil && failed.Reason != Exited {
		if failed.Reason != OutputTooLong {
			p.terminate()
		}
		p.kill()
	}
	return failed
}

// wait returns when the program has exited and its output is complete.
func (p *running) wait(l limits) *Error {
	ticker := time.NewTicker(closeTime)
	defer ticker.Stop()
	exited, checked := false, 0
	for {
		select {
		case <-p.out.over:
			return p.tooLong()
		case <-l.ctx.Done():
			return canceled(l.ctx)
		case <-l.deadline:
			return p.command.timedOut()
		case <-p.settled:
			return p.exitError()
		case <-ticker.C:
			if !closed(p.exited) {
				continue
			}
			if !exited {
				exited = true // closeTime begins
				continue
			}
			// Another process holds the pipes. The output is complete if the
			// program failed, closed standard output or wrote a whole JSON
			// value; otherwise that process may still write the rest.
			if closed(p.stdout.eof) || !p.cmd.ProcessState.Success() {
				return p.exitError()
			}
			if n := p.out.len(); n != checked {
				checked = n
				if p.out.isJSON() {
					return p.exitError()
				}
			}
		}
	}
}

// exitError returns the failure of a program that has exited, or nil.
func (p *running) exitError() *Error {
	if closed(p.out.over) {
		return p.tooLong()
	}
	if state := p.cmd.ProcessState; !state.Success() {
		return &Error{Exited, fmt.Errorf("%v", state)}
	}
	return nil
}

func (p *running) tooLong() *Error {
	return &Error{OutputTooLong, fmt.Errorf("standard output is longer than %d bytes", p.out.max)}
}

// terminate sends SIGTERM and waits at most Grace for the program to exit.
func (p *running) terminate() {
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

// kill kills the process group and stops reading. It does not wait for
// processes that have left the group.
func (p *running) kill() {
	killGroup(p.cmd.Process)
	timer := time.NewTimer(closeTime)
	defer timer.Stop()
	// The exit status and the end of standard error are worth a short wait.
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

// drain keeps reading for a while, so that a process that the program left
// running is not killed by a closed pipe while it finishes its work.
func (p *running) drain(limit time.Duration) {
	stdout, stderr, settled := p.stdout, p.stderr, p.settled
	timer := time.AfterFunc(limit, func() {
		stdout.close()
		stderr.close()
	})
	go func() {
		<-settled
		timer.Stop()
	}()
}

// release returns the output so far. Later output is discarded.
func (p *running) release() (stdout []byte, stderr HeadTail) {
	p.stdout.discard()
	p.stderr.discard()
	return p.out.buf, *p.err
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// isJSON reports whether the output is one complete JSON value.
func (b *bounded) isJSON() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return json.Valid(b.buf)
}
