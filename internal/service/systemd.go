// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/systemd"
)

// Systemd is a [Manager] that uses systemd. The zero value uses this machine's systemd.
type Systemd struct {
	PrivateSocket, BusSocket string // sockets; "" means "/run/systemd/private" or the system bus
	Journalctl               string // "" means "journalctl" from PATH
}

func (m Systemd) client() *systemd.Client {
	return &systemd.Client{Socket: m.PrivateSocket, Bus: cmp.Or(m.BusSocket, systemd.SystemBus)}
}

// Reload is equivalent to "systemctl daemon-reload".
func (m Systemd) Reload(ctx context.Context) error {
	c := m.client()
	defer c.Close()
	return explainDBusError(ctx, c.Reload(ctx))
}

// State returns a unit's state.
func (m Systemd) State(ctx context.Context, unit string) (State, error) {
	c := m.client()
	defer c.Close()
	u, err := c.Unit(ctx, unit)
	return State(u), explainDBusError(ctx, err)
}

// Restart is equivalent to "systemctl restart". It first resets the start limit,
// because systemd refuses to start a unit that has reached the limit (StartLimitBurst
// in systemd.unit(5)).
func (m Systemd) Restart(ctx context.Context, unit string) error {
	c := m.client()
	defer c.Close()
	_ = c.ResetFailed(ctx, unit) // without permission for this, the restart fails too
	result := make(chan string, 1)
	job, err := c.Restart(ctx, unit, result)
	if err != nil {
		return explainDBusError(ctx, err)
	}
	return waitForJob(ctx, c, unit, job, result)
}

// waitForJob waits until a job has finished. It also polls the unit's job, because the
// result does not arrive if systemd re-executes itself, which closes the connection.
func waitForJob(ctx context.Context, c *systemd.Client, unit string, job int, result <-chan string) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for gone := false; ; {
		select {
		case r := <-result:
			return jobError(unit, r)
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

// jobError returns the error for a job's result, or nil for "done".
func jobError(unit, result string) error {
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

// Log reads the unit's log with journalctl. It selects entries by time rather than by
// invocation, because each restart is another invocation and the journal may not know
// the invocation of a process that exits immediately.
func (m Systemd) Log(ctx context.Context, unit string, since time.Time, lines int) ([]string, error) {
	journalctl := cmp.Or(m.Journalctl, "journalctl")
	// The last lines may not have arrived yet. journalctl before version 228 lacks
	// --sync.
	_, _ = commandOutput(ctx, journalctl, "--sync")
	// Up to version 253, --since with --lines returns the first lines, unless --reverse
	// is set.
	out, err := commandOutput(ctx, journalctl, "--quiet", "--no-pager", "--output=cat", "--all", "--reverse",
		"--lines="+strconv.Itoa(lines), fmt.Sprintf("--since=@%d", since.Unix()), "_SYSTEMD_UNIT="+unit)
	if err != nil {
		return nil, err
	}
	read := trimLines(strings.Split(out, "\n"))
	slices.Reverse(read)
	return read, nil
}
