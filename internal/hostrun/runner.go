// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package hostrun

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"time"

	"github.com/regcred/regcred/internal/systemd"
)

// Runner runs programs on a node, each as the one transient unit of its name: two do
// not run at once, whoever has started them. It may be used concurrently.
type Runner struct {
	Unit   string // of the transient unit; ends in ".service"
	Socket string // of the node's systemd; "/run/systemd/private" if ""
}

// Command is a program and how it is run.
type Command struct {
	Path string // absolute, as the node has it

	// Args are without the program's name. They should have no semicolon: where systemd
	// (252) executes itself anew before the program, it puts a backslash before it.
	Args []string

	Env []string // "NAME=value", beside what systemd gives every service

	// Keep is a file of this process that has what the program prints on standard output,
	// for who comes after this process if that is ended before the program. One that is
	// there is replaced. With "" what is printed then is lost.
	Keep string

	// Limit is how long it may run; 0 is without end. It is then ended as by
	// "systemctl stop": by SIGTERM, and what has not ended after TimeoutStopSec of
	// the node's systemd, by default 90 s, by SIGKILL.
	Limit time.Duration
}

// The most that is kept of what a program prints, in bytes. More is refused to it: a
// write then fails.
const (
	maxStdout = 4 << 20
	maxStderr = 1 << 20
)

// How long is waited between two looks at a unit.
const (
	firstLook = 25 * time.Millisecond
	laterLook = 500 * time.Millisecond
)

// Run runs a program until it ends, writes what it prints, and returns its exit code.
// If a unit of the name runs already it first waits until that has ended.
//
// An error says that it could not be run, or how it ended without an exit code: a
// [*NoSystemdError], a [*NotMountedError], a [*NotAnsweringError], a [*DeniedError], a
// [*NotStartedError], a [*KilledError], a [*LostError], a [*UnitFileError], or, also of
// a writer, a [*BegunError]. When ctx ends Run returns at once with its cause,
// and the program goes on: what it prints is lost, and fails none of its writes.
//
// A systemd that reads its units anew meanwhile, or executes itself anew, does no harm.
func (r Runner) Run(ctx context.Context, c Command, stdout, stderr io.Writer) (code int, err error) {
	u := &unit{runner: r, systemd: &systemd.Client{Socket: r.Socket, Reconnect: true}, token: rand.Text()[:12]}
	defer u.systemd.Close()
	if u.stdout, err = c.output(); err != nil {
		return 0, err
	}
	defer u.stdout.close()
	if u.stderr, err = newOutput(maxStderr); err != nil {
		return 0, err
	}
	defer u.stderr.close()
	if err := u.start(ctx, c); err != nil {
		return 0, u.explain(ctx, err)
	}
	end, err := u.wait(ctx, stdout, stderr)
	if err == nil {
		err = u.clear(ctx, end) // or else the next run does it
	}
	if err != nil {
		return 0, u.begun(u.explain(ctx, err))
	}
	if code, err = end.exit(c); err == nil && u.stdout.full() {
		err = &BegunError{u.runner.Unit, errTooMuch}
	}
	return code, err
}

// begun is what went wrong after the start.
func (u *unit) begun(err error) error {
	if _, ok := errors.AsType[*LostError](err); ok {
		return err
	}
	return &BegunError{u.runner.Unit, err}
}

// output is where it prints to.
func (c Command) output() (*output, error) {
	if c.Keep != "" {
		return keptOutput(c.Keep, maxStdout)
	}
	return newOutput(maxStdout)
}

// unit is one run.
type unit struct {
	runner         Runner
	systemd        *systemd.Client
	token          string // in the unit's description, by which it is told from another's
	stdout, stderr *output
}

func (u *unit) state(ctx context.Context) (state, error) {
	s, err := u.systemd.Unit(ctx, u.runner.Unit)
	return state{s}, err
}

// start starts the unit once there is none of its name.
func (u *unit) start(ctx context.Context, c Command) error {
	for {
		err := u.systemd.StartTransient(ctx, u.runner.Unit, u.properties(c))
		if !systemd.IsUnitExists(err) {
			return err
		}
		// It may be ours: an answer is lost if systemd executes itself anew.
		s, err := u.state(ctx)
		if err != nil || s.ours(u.token) {
			return err
		}
		if file := s.foreign(); file != "" {
			return &UnitFileError{u.runner.Unit, file}
		}
		if err := u.makeRoom(ctx); err != nil {
			return err
		}
		if err := pause(ctx, firstLook); err != nil { // it may say that again
			return err
		}
	}
}

// leave is how long a unit that has ended is left to whoever has started it, who
// wants to see how it ended.
const leave = 2 * time.Second

// makeRoom waits until a unit of somebody else has ended, and is gone.
func (u *unit) makeRoom(ctx context.Context) error {
	var ended time.Time
	for look := firstLook; ; look = min(2*look, laterLook) {
		s, err := u.state(ctx)
		switch {
		case err != nil || s.gone():
			return err
		case !s.ended():
			ended = time.Time{}
		case ended.IsZero():
			ended = time.Now()
		case time.Since(ended) >= leave:
			return u.clear(ctx, s)
		}
		if err := pause(ctx, look); err != nil {
			return err
		}
	}
}

// wait waits until the unit has ended, and copies what it prints meanwhile.
func (u *unit) wait(ctx context.Context, stdout, stderr io.Writer) (state, error) {
	for look := firstLook; ; look = min(2*look, laterLook) {
		s, err := u.state(ctx)
		if err != nil {
			return s, err
		}
		if err := u.stderr.copyTo(stderr); err != nil {
			return s, err
		}
		if s.gone() || !s.ours(u.token) {
			return s, &LostError{u.runner.Unit}
		}
		if s.ended() {
			return s, u.stdout.copyTo(stdout)
		}
		if err := pause(ctx, look); err != nil {
			return s, err
		}
	}
}

// clear makes systemd forget a unit that has ended.
func (u *unit) clear(ctx context.Context, s state) error {
	if s.Active == "failed" {
		return u.systemd.ResetFailed(ctx, u.runner.Unit)
	}
	if err := u.systemd.Stop(ctx, u.runner.Unit); err != nil {
		return err
	}
	for look := firstLook; ; look = min(2*look, laterLook) {
		if now, err := u.state(ctx); err != nil || now.gone() || now.Description != s.Description {
			return err
		}
		if err := pause(ctx, look); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
