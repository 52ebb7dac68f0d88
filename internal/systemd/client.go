// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package systemd calls systemd over its private socket, which needs no bus and which
// only root may use, or over the system bus.
//
//	c := systemd.Client{Bus: systemd.SystemBus}
//	defer c.Close()
//	unit, err := c.Unit(ctx, "kubelet.service")
//
// Errors that systemd returns are a dbus.Error. Callers explain them to the user.
package systemd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"
	"time"

	dbusapi "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// SystemBus is the path of the system bus's socket.
const SystemBus = "/run/dbus/system_bus_socket"

// Property is a property of a transient unit.
type Property = dbusapi.Property

// Client calls systemd over one connection, which the first call opens. The zero value
// uses this machine's private socket. It is not safe for concurrent use.
type Client struct {
	Socket string // private socket; "" means "/run/systemd/private"
	Bus    string // used if the private socket is unavailable; "" means none

	// Reconnect repeats a call if the connection is lost, because systemd closes all
	// connections when it re-executes itself. Each try is then limited to 25 s.
	Reconnect bool

	conn    *dbusapi.Conn
	cancel  context.CancelFunc
	reached bool
}

const (
	responseTimeout = 25 * time.Second
	reexecTimeout   = time.Minute     // while systemd re-executes itself
	absentTimeout   = 3 * time.Second // before the first response, without a socket
	retryInterval   = 50 * time.Millisecond
)

// ErrNoResponse is returned if a call times out. systemd does not respond while it
// reloads many units.
var ErrNoResponse = fmt.Errorf("no response for %v", responseTimeout)

// Path returns the path of the private socket.
func (c *Client) Path() string { return cmp.Or(c.Socket, privateSocket) }

// Reached reports whether any call has succeeded.
func (c *Client) Reached() bool { return c.reached }

// Close closes the connection. The next call opens a new one.
func (c *Client) Close() {
	if c.conn != nil {
		c.conn.Close()
		c.cancel()
		c.conn = nil
	}
}

// Reload reloads all unit files, like "systemctl daemon-reload".
func (c *Client) Reload(ctx context.Context) error {
	return c.callWithRetry(ctx, func(ctx context.Context) error { return c.conn.ReloadContext(ctx) })
}

// Restart starts a job that restarts a unit, and returns the job's number. The job's
// result is sent to result, unless the connection is lost.
func (c *Client) Restart(ctx context.Context, unit string, result chan<- string) (job int, err error) {
	err = c.callWithRetry(ctx, func(ctx context.Context) error {
		job, err = c.conn.RestartUnitContext(ctx, unit, "replace", result)
		return err
	})
	return job, err
}

// StartTransient starts a transient unit. The unit may have been started even if
// StartTransient returns an error. In that case the next call returns an error for
// which [IsUnitExistsError] is true.
func (c *Client) StartTransient(ctx context.Context, unit string, properties []Property) error {
	return c.callWithRetry(ctx, func(ctx context.Context) error {
		_, err := c.conn.StartTransientUnitContext(ctx, unit, "fail", properties, nil)
		return err
	})
}

// Stop starts a job that stops a unit, if the unit exists.
func (c *Client) Stop(ctx context.Context, unit string) error {
	return ignoreErrorNamed("NoSuchUnit", c.callWithRetry(ctx, func(ctx context.Context) error {
		_, err := c.conn.StopUnitContext(ctx, unit, "replace", nil)
		return err
	}))
}

// ResetFailed resets a unit's failed state and start limit, if the unit exists.
func (c *Client) ResetFailed(ctx context.Context, unit string) error {
	return ignoreErrorNamed("NoSuchUnit", c.callWithRetry(ctx, func(ctx context.Context) error { return c.conn.ResetFailedUnitContext(ctx, unit) }))
}

// IsUnitExistsError reports whether systemd refused to create a unit because it already
// exists.
func IsUnitExistsError(err error) bool {
	return err != nil && ignoreErrorNamed("UnitExists", err) == nil
}

// ignoreErrorNamed returns nil if err has the given name.
func ignoreErrorNamed(name string, err error) error {
	if e, ok := errors.AsType[dbus.Error](err); ok && e.Name == serviceName+"."+name {
		return nil
	}
	return err
}

// callWithRetry runs f with a connection, and runs it again if the connection is lost.
func (c *Client) callWithRetry(ctx context.Context, f func(context.Context) error) error {
	var lostAt time.Time
	for {
		err := c.try(ctx, f)
		if !IsConnectionLost(err) || ctx.Err() != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		c.Close()
		if lostAt.IsZero() {
			lostAt = time.Now()
		}
		if !c.Reconnect || time.Since(lostAt) > c.reconnectTimeout() {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(retryInterval):
		}
	}
}

// try runs f once with a connection.
func (c *Client) try(ctx context.Context, f func(context.Context) error) error {
	within := ctx
	if c.Reconnect {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeoutCause(ctx, responseTimeout, ErrNoResponse)
		defer cancel()
	}
	if c.conn == nil {
		if err := c.connect(ctx, within); err != nil {
			return cmp.Or(context.Cause(within), err)
		}
	}
	if err := f(within); err != nil {
		return cmp.Or(context.Cause(within), err)
	}
	c.reached = true
	return nil
}

// reconnectTimeout returns how long to retry after the connection is lost.
func (c *Client) reconnectTimeout() time.Duration {
	if info, err := os.Stat(c.Path()); !c.reached && (err != nil || info.Mode().Type() != fs.ModeSocket) {
		return absentTimeout
	}
	return reexecTimeout
}

// IsConnectionLost reports whether an error means that the connection was lost or could not be
// opened, so that a retry may succeed.
func IsConnectionLost(err error) bool {
	if e, ok := errors.AsType[dbus.Error](err); ok {
		return strings.HasSuffix(e.Name, ".NoReply") || strings.HasSuffix(e.Name, ".Disconnected")
	}
	return err != nil && !errors.Is(err, fs.ErrPermission)
}

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
