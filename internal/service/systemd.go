// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/regcred/regcred/internal/sdsocket"
)

// Systemd is systemd over D-Bus. The zero value is that of this machine.
type Systemd struct {
	// Where it is asked: at its own socket, which only root may use and which is
	// there without a bus, or else at the system bus, which checks a policy.
	Private, Bus string // "/run/systemd/private", "/run/dbus/system_bus_socket" if ""

	// Journalctl reads its journal; "journalctl" of the PATH if "".
	Journalctl string
}

// dial connects for as long as ctx lasts.
func (m Systemd) dial(ctx context.Context) (*systemd.Conn, error) {
	private := cmp.Or(m.Private, sdsocket.Path)
	conn, err := systemd.NewConnection(func() (*dbus.Conn, error) { return sdsocket.Dial(ctx, ctx, private) })
	if err == nil || ctx.Err() != nil {
		return conn, explain(ctx, err)
	}
	bus := cmp.Or(m.Bus, "/run/dbus/system_bus_socket")
	conn, busErr := systemd.NewConnection(func() (*dbus.Conn, error) { return dialBus(ctx, bus) })
	if busErr == nil {
		return conn, nil
	}
	return nil, explain(ctx, fmt.Errorf("cannot reach systemd at %s (%w) or at %s (%w)", private, cause(err), bus, cause(busErr)))
}

// dialBus connects to a bus, which wants to be greeted.
func dialBus(ctx context.Context, path string) (*dbus.Conn, error) {
	conn, err := dbus.Dial("unix:path="+dbus.EscapeBusAddressValue(path), dbus.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	err = conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Geteuid()))})
	if err == nil {
		err = conn.Hello()
	}
	if err != nil {
		_ = conn.Close() // the first error is what matters
		return nil, err
	}
	return conn, nil
}

// Reload is "systemctl daemon-reload".
func (m Systemd) Reload(ctx context.Context, _ string) error {
	conn, err := m.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return explain(ctx, conn.ReloadContext(ctx))
}

// State asks for all properties of a unit at once, so that they are of one moment.
func (m Systemd) State(ctx context.Context, unit string) (State, error) {
	conn, err := m.dial(ctx)
	if err != nil {
		return State{}, err
	}
	defer conn.Close()
	p, err := conn.GetAllPropertiesContext(ctx, unit)
	if err != nil {
		return State{}, explain(ctx, err)
	}
	return properties(p).state()
}

// Restart is "systemctl restart". A unit that was started too often is not
// started again unless that has been forgotten (StartLimitBurst in systemd.unit(5)).
func (m Systemd) Restart(ctx context.Context, unit string) error {
	conn, err := m.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.ResetFailedUnitContext(ctx, unit) // whoever may not do that may not restart it either
	result := make(chan string, 1)
	job, err := conn.RestartUnitContext(ctx, unit, "replace", result)
	if err != nil {
		return explain(ctx, err)
	}
	return m.follow(ctx, unit, job, result)
}

// follow waits for a job's end. Should systemd's word of it not arrive, for
// which reason ever (it executes itself anew, and ends all connections), it is
// asked whether there still is such a job.
func (m Systemd) follow(ctx context.Context, unit string, job int, result <-chan string) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for gone := false; ; {
		select {
		case r := <-result:
			return jobEnded(unit, r)
		case <-ctx.Done():
			return &Error{fmt.Errorf("%w; systemd is still working on job %d", context.Cause(ctx), job), "systemctl list-jobs; systemctl status " + unit}
		case <-tick.C:
			state, err := m.State(ctx, unit)
			if err == nil && state.Job != job && gone {
				return nil
			}
			gone = err == nil && state.Job != job
		}
	}
}

// jobEnded is the error of a job's result, nil for "done".
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

// cause is what a system said of a socket.
func cause(err error) error {
	if e, ok := errors.AsType[*os.SyscallError](err); ok {
		return e.Err
	}
	if errors.Is(err, io.EOF) {
		return errors.New("connection closed")
	}
	return err
}

// properties are those of a unit, as they arrived.
type properties map[string]any

// state makes a [State] of them. Old versions have fewer: InvocationID came
// with systemd 232, NRestarts with 235.
func (p properties) state() (State, error) {
	s := State{
		Load: get[string](p, "LoadState"), Active: get[string](p, "ActiveState"), Sub: get[string](p, "SubState"),
		Enabled:  get[string](p, "UnitFileState"),
		MainPID:  int(get[uint32](p, "MainPID")),
		Restarts: int(get[uint32](p, "NRestarts")),
		Result:   get[string](p, "Result"), ExitCode: int(get[int32](p, "ExecMainStatus")),
		Signalled:  signalled(get[int32](p, "ExecMainCode")),
		Conditions: get[bool](p, "ConditionResult") || get[uint64](p, "ConditionTimestamp") == 0,
	}
	if id := get[[]byte](p, "InvocationID"); len(id) > 0 {
		s.Invocation = fmt.Sprintf("%x", id)
	}
	if us := get[uint64](p, "ExecMainStartTimestamp"); us > 0 && us <= math.MaxInt64 {
		s.Started = time.UnixMicro(int64(us))
	}
	if job := get[[]any](p, "Job"); len(job) > 0 {
		id, _ := job[0].(uint32)
		s.Job = int(id)
	}
	if e := get[[]any](p, "LoadError"); len(e) == 2 {
		s.LoadError, _ = e[1].(string)
	}
	if s.Load == "" || s.Active == "" {
		return s, errors.New("systemd's response has no LoadState or ActiveState")
	}
	return s, nil
}

// get is a property; its zero value if it is absent, or of another type.
func get[T any](p properties, name string) T {
	value, _ := p[name].(T)
	return value
}

// signalled reports whether a code of waitid(2) is that of a process that a
// signal ended: CLD_KILLED or CLD_DUMPED.
func signalled(code int32) bool { return code == 2 || code == 3 }
