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

// Unit is the state of a unit at one moment, in systemd's words. What systemd does not
// report is zero: InvocationID came with systemd 232, NRestarts with 235.
type Unit struct {
	Load, LoadError  string // LoadState, and why it is not "loaded"
	Active, Sub      string // ActiveState, SubState
	Enabled          string // UnitFileState
	Description      string
	File             string // FragmentPath
	Transient        bool
	MainPID          int
	Invocation       string
	Started          time.Time // of the last main process
	Restarts         int       // automatic ones, NRestarts
	Result           string
	ExitKind         int  // of the last main process, si_code of waitid(2); 0 if it has not ended
	ExitStatus       int  // its exit code or signal
	ConditionsFailed bool // when it was last started
	Job              int  // queued or running; 0 if none
}

// Unit returns the state of a unit, which need not exist. All properties are read at
// once, so that they are of one moment.
func (c *Client) Unit(ctx context.Context, name string) (u Unit, err error) {
	err = c.call(ctx, func(ctx context.Context) error {
		p, err := c.conn.GetAllPropertiesContext(ctx, name)
		u = decode(p)
		return err
	})
	if err == nil && (u.Load == "" || u.Active == "") {
		err = errors.New("systemd's response has no LoadState or ActiveState")
	}
	return u, err
}

func decode(p map[string]any) Unit {
	u := Unit{
		Load: get[string](p, "LoadState"), Active: get[string](p, "ActiveState"), Sub: get[string](p, "SubState"),
		Enabled: get[string](p, "UnitFileState"), Description: get[string](p, "Description"),
		File: get[string](p, "FragmentPath"), Transient: get[bool](p, "Transient"),
		MainPID: int(get[uint32](p, "MainPID")), Restarts: int(get[uint32](p, "NRestarts")),
		Result: get[string](p, "Result"), ExitKind: int(get[int32](p, "ExecMainCode")), ExitStatus: int(get[int32](p, "ExecMainStatus")),
		ConditionsFailed: !get[bool](p, "ConditionResult") && get[uint64](p, "ConditionTimestamp") != 0,
	}
	if id := get[[]byte](p, "InvocationID"); len(id) > 0 {
		u.Invocation = fmt.Sprintf("%x", id)
	}
	if us := get[uint64](p, "ExecMainStartTimestamp"); us > 0 && us <= math.MaxInt64 {
		u.Started = time.UnixMicro(int64(us))
	}
	if job := get[[]any](p, "Job"); len(job) > 0 {
		id, _ := job[0].(uint32)
		u.Job = int(id)
	}
	if e := get[[]any](p, "LoadError"); len(e) == 2 {
		u.LoadError, _ = e[1].(string)
	}
	return u
}

// get returns a property, or the zero value if it is absent or of another type.
func get[T any](p map[string]any, name string) T {
	value, _ := p[name].(T)
	return value
}
