// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// grace is how long, and at most twice as long, a plugin that has exited is
// given to have its pipes closed. What holds them longer is not the plugin but something it started.
const grace = 250 * time.Millisecond

// limits are the bounds of one run.
type limits struct {
	ctx       context.Context
	deadline  <-chan time.Time
	timeout   time.Duration // what deadline was set to
	maxOutput int
	polite    time.Duration // from SIGTERM to the kill; 0 means no SIGTERM
}

func (l limits) timedOut() *failure {
	return &failure{StageTimeout, fmt.Errorf("no response within %v: %w", l.timeout, context.DeadlineExceeded)}
}

func (l limits) canceled() *failure {
	return &failure{StageCanceled, fmt.Errorf("canceled: %w", l.ctx.Err())}
}

// failure is an error and the stage that it belongs to.
type failure struct {
	stage Stage
	err   error
}

// process is a running plugin. The pipes are our own, not those of os/exec,
// whose Wait returns only when they are closed by everybody who holds them.
type process struct {
	cmd     *exec.Cmd
	started time.Time
	exited  chan struct{} // closed when the plugin is gone and cmd.ProcessState is set
	stdin   *os.File
	*pipes
	out *bounded
	err *headTail
}

// spawn starts cmd with three new pipes.
func spawn(cmd *exec.Cmd, maxOutput int) (*process, error) {
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
	cmd.Stdin, cmd.Stdout, cmd.Stderr = ends[0], ends[3], ends[5]
	if err := cmd.Start(); err != nil {
		closeAll()
		return nil, err
	}
	for _, child := range []int{0, 3, 5} {
		ends[child].Close()
	}
	p := &process{
		cmd:     cmd,
		started: time.Now(),
		exited:  make(chan struct{}),
		stdin:   ends[1],
		out:     &bounded{max: maxOutput, over: make(chan struct{})},
		err:     &headTail{},
	}
	p.pipes = &pipes{make(chan struct{}), newStream(ends[2], p.out), newStream(ends[4], p.err)}
	go settle(cmd, p.exited, p.pipes)
	return p, nil
}

// settle waits for the plugin and its pipes. What the plugin has written, which
// may be long and secret, is not kept for it.
func settle(cmd *exec.Cmd, exited chan<- struct{}, p *pipes) {
	cmd.Wait() // the status is in cmd.ProcessState
	close(exited)
	<-p.stdout.eof
	<-p.stderr.eof
	close(p.settled)
}

// run hands the request over and returns when the answer is complete (nil),
// or when the run has failed.
func (p *process) run(l limits, request io.Reader) *failure {
	defer p.stdin.Close() // also ends a write that nobody reads
	go func() {
		// A plugin need not read its input: an error here says nothing.
		io.Copy(p.stdin, request)
		p.stdin.Close()
	}()
	failed := p.wait(l)
	if failed != nil && failed.stage != StageExec {
		if l.polite > 0 && failed.stage != StageOutput {
			p.terminate(l.polite)
		}
		p.kill()
	}
	return failed
}

// terminate asks the plugin to end, and waits until it has or its time is up.
func (p *process) terminate(polite time.Duration) {
	if !terminateGroup(p.cmd.Process) {
		return
	}
	patience := time.NewTimer(polite)
	defer patience.Stop()
	select {
	case <-p.exited:
	case <-patience.C:
	}
}

// wait returns when the plugin has exited and its answer is complete.
func (p *process) wait(l limits) *failure {
	ticker := time.NewTicker(grace)
	defer ticker.Stop()
	gone, checked := false, 0
	for {
		select {
		case <-p.out.over:
			return p.overflow()
		case <-l.ctx.Done():
			return l.canceled()
		case <-l.deadline:
			return l.timedOut()
		case <-p.settled:
			return p.verdict()
		case <-ticker.C:
			if !closed(p.exited) {
				continue
			}
			if !gone {
				gone = true // its grace begins
				continue
			}
			// Something that the plugin started holds its pipes. Nothing more
			// can come from a plugin that failed, or whose answer is whole;
			// otherwise that something may be what writes the answer.
			if closed(p.stdout.eof) || !p.cmd.ProcessState.Success() {
				return p.verdict()
			}
			if n := p.out.len(); n != checked {
				checked = n
				if p.out.whole() {
					return p.verdict()
				}
			}
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// verdict judges a plugin that has exited.
func (p *process) verdict() *failure {
	if closed(p.out.over) {
		return p.overflow()
	}
	if state := p.cmd.ProcessState; !state.Success() {
		return &failure{StageExec, fmt.Errorf("%v", state)}
	}
	return nil
}

func (p *process) overflow() *failure {
	return &failure{StageOutput, fmt.Errorf("standard output is longer than %d bytes", p.out.max)}
}

// kill kills the plugin and its process group, and stops reading. What has
// left the group is not waited for.
func (p *process) kill() {
	killGroup(p.cmd.Process)
	settled := time.NewTimer(grace)
	defer settled.Stop()
	// The exit status and the last of standard error are worth a moment.
	for _, done := range []<-chan struct{}{p.exited, p.stderr.eof} {
		select {
		case <-done:
		case <-settled.C:
			settled.Reset(0)
		}
	}
	p.close()
}

// release returns what has been read so far. What comes later is dropped, but
// still read, so that what the plugin has left behind does not die of a
// closed pipe: see [leftovers].
func (p *process) release() (stdout []byte, stderr *headTail) {
	p.stdout.drop()
	p.stderr.drop()
	return p.out.buf, p.err
}

// exitCode is -1 if the plugin did not exit by itself.
func (p *process) exitCode() int {
	if !closed(p.exited) {
		return -1
	}
	return p.cmd.ProcessState.ExitCode()
}

// whole reports whether the answer is one complete JSON value.
func (b *bounded) whole() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return json.Valid(b.buf)
}
