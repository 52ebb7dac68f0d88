// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package systemd calls systemd over its private socket or over the system bus. The private
// socket does not need a bus, but only root can use it.
//
//	c := systemd.Client{Bus: systemd.SystemBus}
//	defer c.Close()
//	unit, err := c.Unit(ctx, "kubelet.service")
//
// Errors that systemd returns have the type dbus.Error. Callers must explain them to the user.
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

// SystemBus is the path of the system bus socket.
const SystemBus = "/run/dbus/system_bus_socket"

// Property is a property of a transient unit.
type Property = dbusapi.Property

// Client calls systemd. The first call opens a connection, which later calls reuse. The zero
// value uses this machine's private socket. A Client is not safe for concurrent use.
type Client struct {
	Socket string // path of the private socket; "" means "/run/systemd/private"
	Bus    string // path of the bus socket to use if the private socket is unavailable; "" means none

	// Reconnect repeats a call if the connection is lost, because systemd closes all
	// connections when it re-executes itself. Each attempt then has a timeout of 25 s.
	Reconnect bool

	conn    *dbusapi.Conn
	cancel  context.CancelFunc
	reached bool
}

const (
	responseTimeout = 25 * time.Second
	reexecTimeout   = time.Minute     // how long to reconnect while systemd re-executes itself
	absentTimeout   = 3 * time.Second // how long to reconnect if the socket does not exist and no call has succeeded
	retryInterval   = 50 * time.Millisecond
)

// ErrNoResponse means that a call timed out. systemd does not respond while it reloads many
// units.
var ErrNoResponse = fmt.Errorf("no response for %v", responseTimeout)

// SocketPath returns the path of the private socket.
func (c *Client) SocketPath() string { return cmp.Or(c.Socket, privateSocket) }

// Reached reports whether at least one call has succeeded.
func (c *Client) Reached() bool { return c.reached }

// Close closes the connection. The next call opens a new connection.
func (c *Client) Close() {
	if c.conn != nil {
		c.conn.Close()
		c.cancel()
		c.conn = nil
	}
}

// Reload makes systemd reload all unit files, like "systemctl daemon-reload".
func (c *Client) Reload(ctx context.Context) error {
	return c.callWithRetry(ctx, func(ctx context.Context) error { return c.conn.ReloadContext(ctx) })
}

// Restart restarts a unit without waiting. It returns the number of the restart job. systemd's
// result of the job is sent to result, unless the connection is lost.
func (c *Client) Restart(ctx context.Context, unit string, result chan<- string) (job int, err error) {
	err = c.callWithRetry(ctx, func(ctx context.Context) error {
		job, err = c.conn.RestartUnitContext(ctx, unit, "replace", result)
		return err
	})
	return job, err
}

// StartTransient starts a transient unit. It may have started the unit even if it returns an
// error. Another call then returns an error for which [IsUnitExistsError] is true.
func (c *Client) StartTransient(ctx context.Context, unit string, properties []Property) error {
	return c.callWithRetry(ctx, func(ctx context.Context) error {
		_, err := c.conn.StartTransientUnitContext(ctx, unit, "fail", properties, nil)
		return err
	})
}

// Stop stops a unit without waiting. It does nothing if the unit does not exist.
func (c *Client) Stop(ctx context.Context, unit string) error {
	return ignoreErrorNamed("NoSuchUnit", c.callWithRetry(ctx, func(ctx context.Context) error {
		_, err := c.conn.StopUnitContext(ctx, unit, "replace", nil)
		return err
	}))
}

// ResetFailed resets the failed state and the start limit of a unit. It does nothing if the
// unit does not exist.
func (c *Client) ResetFailed(ctx context.Context, unit string) error {
	return ignoreErrorNamed("NoSuchUnit", c.callWithRetry(ctx, func(ctx context.Context) error { return c.conn.ResetFailedUnitContext(ctx, unit) }))
}

// IsUnitExistsError reports whether systemd did not create a unit because the unit already
// exists.
func IsUnitExistsError(err error) bool {
	return err != nil && ignoreErrorNamed("UnitExists", err) == nil
}

// ignoreErrorNamed returns nil if err is the systemd error with the given name. It returns
// other errors unchanged.
func ignoreErrorNamed(name string, err error) error {
	if e, ok := errors.AsType[dbus.Error](err); ok && e.Name == serviceName+"."+name {
		return nil
	}
	return err
}

// callWithRetry calls f after connecting. If the connection is lost and Reconnect is set, it
// calls f again.
func (c *Client) callWithRetry(ctx context.Context, f func(context.Context) error) error {
	var lostAt time.Time
	for {
		err := c.tryOnce(ctx, f)
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

// tryOnce connects if necessary and calls f once.
func (c *Client) tryOnce(ctx context.Context, f func(context.Context) error) error {
	within := ctx
	if c.Reconnect {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeoutCause(ctx, responseTimeout, ErrNoResponse)
		defer cancel()
	}
	if c.conn == nil {
		if err := c.dialManager(ctx, within); err != nil {
			return cmp.Or(context.Cause(within), err)
		}
	}
	if err := f(within); err != nil {
		return cmp.Or(context.Cause(within), err)
	}
	c.reached = true
	return nil
}

// reconnectTimeout returns how long to retry after the connection was lost.
func (c *Client) reconnectTimeout() time.Duration {
	if info, err := os.Stat(c.SocketPath()); !c.reached && (err != nil || info.Mode().Type() != fs.ModeSocket) {
		return absentTimeout
	}
	return reexecTimeout
}

// IsConnectionLost reports whether an error means that the connection was lost or could not be
// opened. A retry may succeed.
func IsConnectionLost(err error) bool {
	if e, ok := errors.AsType[dbus.Error](err); ok {
		return strings.HasSuffix(e.Name, ".NoReply") || strings.HasSuffix(e.Name, ".Disconnected")
	}
	return err != nil && !errors.Is(err, fs.ErrPermission)
}

// Unit is the state of a unit. The comments name systemd's properties. Values that systemd does
// not report are zero: InvocationID was added in systemd 232, NRestarts in 235.
type Unit struct {
	Load, LoadError  string // LoadState and LoadError; LoadError is "" if the unit is loaded
	Active, Sub      string // ActiveState, SubState
	Enabled          string // UnitFileState
	Description      string
	File             string // FragmentPath
	Transient        bool
	MainPID          int
	Invocation       string
	Started          time.Time // ExecMainStartTimestamp: when the last main process started
	Restarts         int       // NRestarts: number of automatic restarts
	Result           string
	ExitKind         int  // ExecMainCode: si_code (waitid(2)) of the last main process; 0 if it has not exited
	ExitStatus       int  // ExecMainStatus: exit code or signal of the last main process
	ConditionsFailed bool // a condition failed at the last start
	Job              int  // number of the unit's queued or running job; 0 if none
}

// Unit returns the state of a unit. The unit does not have to exist. All properties are read
// with one call, so that they are consistent.
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
		Load: propertyValue[string](p, "LoadState"), Active: propertyValue[string](p, "ActiveState"), Sub: propertyValue[string](p, "SubState"),
		Enabled: propertyValue[string](p, "UnitFileState"), Description: propertyValue[string](p, "Description"),
		File: propertyValue[string](p, "FragmentPath"), Transient: propertyValue[bool](p, "Transient"),
		MainPID: int(propertyValue[uint32](p, "MainPID")), Restarts: int(propertyValue[uint32](p, "NRestarts")),
		Result: propertyValue[string](p, "Result"), ExitKind: int(propertyValue[int32](p, "ExecMainCode")), ExitStatus: int(propertyValue[int32](p, "ExecMainStatus")),
		ConditionsFailed: !propertyValue[bool](p, "ConditionResult") && propertyValue[uint64](p, "ConditionTimestamp") != 0,
	}
	if id := propertyValue[[]byte](p, "InvocationID"); len(id) > 0 {
		u.Invocation = fmt.Sprintf("%x", id)
	}
	if us := propertyValue[uint64](p, "ExecMainStartTimestamp"); us > 0 && us <= math.MaxInt64 {
		u.Started = time.UnixMicro(int64(us))
	}
	if job := propertyValue[[]any](p, "Job"); len(job) > 0 {
		id, _ := job[0].(uint32)
		u.Job = int(id)
	}
	if e := propertyValue[[]any](p, "LoadError"); len(e) == 2 {
		u.LoadError, _ = e[1].(string)
	}
	return u
}

// propertyValue returns the value of a property. It returns the zero value if the property is
// missing or has another type.
func propertyValue[T any](p map[string]any, name string) T {
	value, _ := p[name].(T)
	return value
}
