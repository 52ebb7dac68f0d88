// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package service

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/regcred/regcred/internal/systemd"
)

// Systemd is a [Manager] that uses systemd. The zero value uses this machine's.
type Systemd struct {
	Private, Bus string // sockets; "/run/systemd/private" and the system bus if ""
	Journalctl   string // "journalctl" in PATH if ""
}

func (m Systemd) client() *systemd.Client {
	return &systemd.Client{Socket: m.Private, Bus: cmp.Or(m.Bus, systemd.SystemBus)}
}

// Reload does what "systemctl daemon-reload" does.
func (m Systemd) Reload(ctx context.Context, _ string) error {
	c := m.client()
	defer c.Close()
	return explain(ctx, c.Reload(ctx))
}

// State returns a unit's state.
func (m Systemd) State(ctx context.Context, unit string) (State, error) {
	c := m.client()
	defer c.Close()
	u, err := c.Unit(ctx, unit)
	if err != nil {
		return State{}, explain(ctx, err)
	}
	return stateOf(u), nil
}

// stateOf converts a unit's state.
func stateOf(u systemd.Unit) State {
	return State{
		Load: u.Load, LoadError: u.LoadError, Enabled: u.Enabled, Active: u.Active, Sub: u.Sub,
		MainPID: u.MainPID, Invocation: u.Invocation, Started: u.Started, Restarts: u.Restarts,
		Result: u.Result, ExitCode: u.ExitStatus, Signalled: u.ExitKind == 2 || u.ExitKind == 3, // CLD_KILLED, CLD_DUMPED
		Conditions: !u.ConditionsFailed, Job: u.Job,
	}
}

// Restart does what "systemctl restart" does. It first resets the start limit, at
// which systemd would refuse to start the unit (StartLimitBurst in systemd.unit(5)).
func (m Systemd) Restart(ctx context.Context, unit string) error {
	c := m.client()
	defer c.Close()
	_ = c.ResetFailed(ctx, unit) // without this permission the restart fails too
	result := make(chan string, 1)
	job, err := c.Restart(ctx, unit, result)
	if err != nil {
		return explain(ctx, err)
	}
	return waitForJob(ctx, c, unit, job, result)
}

// waitForJob waits until a job has ended. The result does not arrive if systemd
// re-executes itself, which closes the connection: so the unit's job is polled too.
func waitForJob(ctx context.Context, c *systemd.Client, unit string, job int, result <-chan string) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for gone := false; ; {
		select {
		case r := <-result:
			return jobEnded(unit, r)
		case <-ctx.Done():
			return &Error{fmt.Errorf("%w; systemd is still working on job %d", context.Cause(ctx), job), "systemctl list-jobs; systemctl status " + unit}
		case <-tick.C:
			state, err := c.Unit(ctx, unit)
			if err == nil && state.Job != job && gone {
				return nil
			}
			gone = err == nil && state.Job != job
		}
	}
}

// jobEnded returns the error for a job's result, nil for "done".
func jobEnded(unit, result string) error {
	why, hint := "", "systemctl status "+unit
	switch result {
	case "done":
		return nil
	case "failed":
		why = "it did not start"
	case "timeout":
		why = "the job took longer than the unit allows (TimeoutStopSec, TimeoutStartSec)"
	case "dependency":
		why, hint = "a required unit did not start", "systemctl list-dependencies "+unit
	case "canceled":
		why = "another request, such as a stop or a shutdown, canceled the job"
	case "skipped":
		why = "the request does not apply to the unit's current state"
	default:
		why = "unexpected result"
	}
	return &Error{fmt.Errorf("its job ended with %q: %s", result, why), hint}
}
