// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package systemd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// Unit is a snapshot of a unit's state, in systemd's terms. Values that systemd does
// not report are zero: InvocationID was added in systemd 232, NRestarts in 235.
type Unit struct {
	Load, LoadError  string // LoadState, and why it is not "loaded"
	Active, Sub      string // ActiveState, SubState
	Enabled          string // UnitFileState
	Description      string
	File             string // FragmentPath
	Transient        bool
	MainPID          int
	Invocation       string
	Started          time.Time // when the last main process started
	Restarts         int       // automatic ones, NRestarts
	Result           string
	ExitKind         int  // si_code (waitid(2)) of the last main process; 0 if it has not exited
	ExitStatus       int  // exit code or signal of the last main process
	ConditionsFailed bool // at the last start
	Job              int  // number of the queued or running job; 0 if none
}

// Unit returns the state of a unit, which does not have to exist. All properties are
// read at once, so that they are consistent.
func (c *Client) Unit(ctx context.Context, name string) (u Unit, err error) {
	err = c.callWithRetry(ctx, func(ctx context.Context) error {
		p, err := c.conn.GetAllPropertiesContext(ctx, name)
		u = decodeUnit(p)
		return err
	})
	if err == nil && (u.Load == "" || u.Active == "") {
		err = errors.New("systemd's response has no LoadState or ActiveState")
	}
	return u, err
}

func decodeUnit(p map[string]any) Unit {
	u := Unit{
		Load: property[string](p, "LoadState"), Active: property[string](p, "ActiveState"), Sub: property[string](p, "SubState"),
		Enabled: property[string](p, "UnitFileState"), Description: property[string](p, "Description"),
		File: property[string](p, "FragmentPath"), Transient: property[bool](p, "Transient"),
		MainPID: int(property[uint32](p, "MainPID")), Restarts: int(property[uint32](p, "NRestarts")),
		Result: property[string](p, "Result"), ExitKind: int(property[int32](p, "ExecMainCode")), ExitStatus: int(property[int32](p, "ExecMainStatus")),
		ConditionsFailed: !property[bool](p, "ConditionResult") && property[uint64](p, "ConditionTimestamp") != 0,
	}
	if id := property[[]byte](p, "InvocationID"); len(id) > 0 {
		u.Invocation = fmt.Sprintf("%x", id)
	}
	if us := property[uint64](p, "ExecMainStartTimestamp"); us > 0 && us <= math.MaxInt64 {
		u.Started = time.UnixMicro(int64(us))
	}
	if job := property[[]any](p, "Job"); len(job) > 0 {
		id, _ := job[0].(uint32)
		u.Job = int(id)
	}
	if e := property[[]any](p, "LoadError"); len(e) == 2 {
		u.LoadError, _ = e[1].(string)
	}
	return u
}

// property returns a property, or the zero value if it is missing or has another type.
func property[T any](p map[string]any, name string) T {
	value, _ := p[name].(T)
	return value
}
