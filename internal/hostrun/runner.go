// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package hostrun runs a program on the node from within a pod. The program is a
// transient unit of the node's systemd, started through systemd's private socket.
// It belongs to systemd, not to the pod, and continues when the pod ends.
//
//	r := hostrun.Runner{Unit: "regcred-agent.service"}
//	code, err := r.Run(ctx, hostrun.Command{Path: "/opt/bin/regcred", Args: []string{"status"}}, os.Stdout, os.Stderr)
//
// The process must have uid 0 on the node, and the directory of the socket must be
// mounted. It needs no capability, no namespace of the node and no other file.
// Mounting only the socket is not enough, because systemd recreates it when it
// re-executes itself.
//
// A process that can do this has root access to the node.
package hostrun

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"time"

	"github.com/regcred/regcred/internal/systemd"
)

// Runner runs programs on a node, one at a time. All programs, including those that
// other processes start, use the same transient unit. It is safe for concurrent use.
type Runner struct {
	Unit   string // name of the transient unit; ends in ".service"
	Socket string // socket of the node's systemd; "" means "/run/systemd/private"
}

// Command is a program to run.
type Command struct {
	Path string // absolute path on the node

	// Args does not include the program's name. Avoid semicolons, because systemd 252
	// prefixes them with a backslash if it re-executes itself before it runs the
	// program.
	Args []string

	// OutputFile is the file for the program's standard output, so that the output is not
	// lost if this process ends before the program. An existing file is replaced.
	OutputFile string

	// Timeout is how long the program may run; 0 means no limit. After that, systemd
	// sends it SIGTERM and, after TimeoutStopSec (90 s by default), SIGKILL.
	Timeout time.Duration
}

// Output limits, in bytes. The program's writes fail beyond them.
const (
	maxStdout = 4 << 20
	maxStderr = 1 << 20
)

// The interval between two reads of a unit's state doubles from minPollInterval to maxPollInterval.
const (
	minPollInterval = 25 * time.Millisecond
	maxPollInterval = 500 * time.Millisecond
)

// Run runs a program until it ends, copies its output, and returns its exit code. If the
// unit is already running, Run first waits until that run has ended.
//
// An error means that the program could not be run, or that its exit code or output is
// unknown. If the cause is known, the error is a [*NoSystemdError], [*NotMountedError],
// [*NotRespondingError], [*PermissionError], [*NotStartedError], [*KilledError],
// [*ResultLostError], [*UnitFileError] or [*UnknownResultError].
//
// When ctx ends, Run returns at once. The program continues and can still write, but its
// further output is lost.
//
// systemd may reload its units or re-execute itself during the run.
func (r Runner) Run(ctx context.Context, c Command, stdout, stderr io.Writer) (code int, err error) {
	u := &unitRun{runner: r, systemd: &systemd.Client{Socket: r.Socket, Reconnect: true}, runID: rand.Text()[:12]}
	defer u.systemd.Close()
	if c.OutputFile != "" {
		u.stdout, err = newFileOutput(c.OutputFile, maxStdout)
	} else {
		u.stdout, err = newOutput(maxStdout)
	}
	if err != nil {
		return 0, err
	}
	defer u.stdout.close()
	if u.stderr, err = newOutput(maxStderr); err != nil {
		return 0, err
	}
	defer u.stderr.close()
	if err := u.startUnit(ctx, c); err != nil {
		return 0, u.convertError(ctx, err)
	}
	end, err := u.waitUnit(ctx, stdout, stderr)
	if err == nil {
		err = u.removeUnit(ctx, end)
	}
	if err != nil {
		err = u.convertError(ctx, err)
		if _, ok := errors.AsType[*ResultLostError](err); !ok {
			err = &UnknownResultError{u.runner.Unit, err}
		}
		return 0, err
	}
	if code, err = end.exitCode(c); err == nil && u.stdout.isFull() {
		err = &UnknownResultError{u.runner.Unit, errOutputTooLarge}
	}
	return code, err
}

// unitRun is a single run of a program.
type unitRun struct {
	runner         Runner
	systemd        *systemd.Client
	runID          string // part of the unit's description, to distinguish it from other runs
	stdout, stderr *programOutput
}

func (u *unitRun) readState(ctx context.Context) (unitState, error) {
	s, err := u.systemd.Unit(ctx, u.runner.Unit)
	return unitState{s}, err
}

// startUnit starts the unit once no other run uses it.
func (u *unitRun) startUnit(ctx context.Context, c Command) error {
	for {
		err := u.systemd.StartTransient(ctx, u.runner.Unit, u.unitProperties(c))
		if !systemd.IsUnitExistsError(err) {
			return err
		}
		// The unit may belong to this run, because the response is lost if systemd
		// re-executes itself.
		s, err := u.readState(ctx)
		if err != nil || s.isOwn(u.runID) {
			return err
		}
		if file := s.foreignUnitFile(); file != "" {
			return &UnitFileError{u.runner.Unit, file}
		}
		if err := u.waitForOtherRun(ctx); err != nil {
			return err
		}
		if err := sleepContext(ctx, minPollInterval); err != nil {
			return err
		}
	}
}

// resultTimeout is how long another process has to read its unit's result before the unit
// is removed.
const resultTimeout = 2 * time.Second

// waitForOtherRun waits until another run's unit has ended and is removed.
func (u *unitRun) waitForOtherRun(ctx context.Context) error {
	var ended time.Time
	for look := minPollInterval; ; look = min(2*look, maxPollInterval) {
		s, err := u.readState(ctx)
		switch {
		case err != nil || s.isGone():
			return err
		case !s.isEnded():
			ended = time.Time{}
		case ended.IsZero():
			ended = time.Now()
		case time.Since(ended) >= resultTimeout:
			return u.removeUnit(ctx, s)
		}
		if err := sleepContext(ctx, look); err != nil {
			return err
		}
	}
}

// waitUnit waits until the unit has ended, and copies its output.
func (u *unitRun) waitUnit(ctx context.Context, stdout, stderr io.Writer) (unitState, error) {
	for look := minPollInterval; ; look = min(2*look, maxPollInterval) {
		s, err := u.readState(ctx)
		if err != nil {
			return s, err
		}
		if err := u.stderr.copyTo(stderr); err != nil {
			return s, err
		}
		if s.isGone() || !s.isOwn(u.runID) {
			return s, &ResultLostError{u.runner.Unit}
		}
		if s.isEnded() {
			return s, u.stdout.copyTo(stdout)
		}
		if err := sleepContext(ctx, look); err != nil {
			return s, err
		}
	}
}

// removeUnit removes a unit that has ended.
func (u *unitRun) removeUnit(ctx context.Context, s unitState) error {
	if s.Active == "failed" {
		return u.systemd.ResetFailed(ctx, u.runner.Unit)
	}
	if err := u.systemd.Stop(ctx, u.runner.Unit); err != nil {
		return err
	}
	for look := minPollInterval; ; look = min(2*look, maxPollInterval) {
		if now, err := u.readState(ctx); err != nil || now.isGone() || now.Description != s.Description {
			return err
		}
		if err := sleepContext(ctx, look); err != nil {
			return err
		}
	}
}

func sleepContext(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
