// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package hostrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	names "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/regcred/regcred/internal/sdsocket"
)

// systemd is the node's, at its private socket. When it executes itself anew it ends
// all connections: then it is asked over another one.
type systemd struct {
	socket string
	conn   *dbus.Conn
	known  bool // it has answered
}

// How long it may take to answer, how long it may be away, while it executes itself
// anew, and how long its socket, if it never has answered.
const (
	answerWithin = 25 * time.Second
	awayWithin   = time.Minute
	thereWithin  = 3 * time.Second
)

const (
	service = "org.freedesktop.systemd1"
	object  = dbus.ObjectPath("/org/freedesktop/systemd1")
	manager = service + ".Manager."
)

// start starts a transient unit. It may have done so despite an error: the next
// call then says that there is one.
func (m *systemd) start(ctx context.Context, unit string, properties []property) error {
	type auxiliary struct {
		Name       string
		Properties []property
	}
	return m.call(ctx, object, manager+"StartTransientUnit", nil, unit, "fail", properties, []auxiliary{})
}

// state looks at a unit. There need not be one.
func (m *systemd) state(ctx context.Context, unit string) (state, error) {
	var all map[string]dbus.Variant
	path := object + "/unit/" + dbus.ObjectPath(names.PathBusEscape(unit))
	err := m.call(ctx, path, "org.freedesktop.DBus.Properties.GetAll", &all, "")
	if err == nil && all["LoadState"].Value() == nil {
		err = fmt.Errorf("systemd returned no properties for %s", unit)
	}
	return stateOf(all), err
}

func (m *systemd) stop(ctx context.Context, unit string) error {
	return ignore(m.call(ctx, object, manager+"StopUnit", nil, unit, "replace"), "NoSuchUnit")
}

func (m *systemd) resetFailed(ctx context.Context, unit string) error {
	return ignore(m.call(ctx, object, manager+"ResetFailedUnit", nil, unit), "NoSuchUnit")
}

// isExists reports whether there is a unit of that name.
func isExists(err error) bool { return err != nil && ignore(err, "UnitExists") == nil }

// ignore makes nothing of an answer of systemd by its name.
func ignore(err error, name string) error {
	if e, ok := errors.AsType[dbus.Error](err); ok && e.Name == service+"."+name {
		return nil
	}
	return err
}

// call calls a method, again if the connection is lost.
func (m *systemd) call(ctx context.Context, path dbus.ObjectPath, method string, answer any, args ...any) error {
	var since time.Time
	for {
		err := m.once(ctx, path, method, answer, args...)
		if !lost(err) || ctx.Err() != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		m.close()
		within := awayWithin
		if info, err := os.Stat(m.path()); !m.known && (err != nil || info.Mode().Type() != fs.ModeSocket) {
			within = thereWithin
		}
		if since.IsZero() {
			since = time.Now()
		} else if time.Since(since) > within {
			return err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// errNoAnswer is an answer that takes too long: a systemd that reads many units anew
// answers nobody.
var errNoAnswer = fmt.Errorf("no response for %v", answerWithin)

func (m *systemd) once(ctx context.Context, path dbus.ObjectPath, method string, answer any, args ...any) error {
	within, cancel := context.WithTimeoutCause(ctx, answerWithin, errNoAnswer)
	defer cancel()
	if m.conn == nil {
		conn, err := sdsocket.Dial(ctx, within, m.path())
		if err != nil {
			return cmp.Or(context.Cause(within), err)
		}
		m.conn = conn
	}
	call := m.conn.Object(service, path).CallWithContext(within, method, 0, args...)
	if call.Err != nil {
		return cmp.Or(context.Cause(within), call.Err)
	}
	m.known = true
	if answer == nil {
		return nil
	}
	return call.Store(answer)
}

func (m *systemd) path() string { return cmp.Or(m.socket, sdsocket.Path) }

func (m *systemd) close() {
	if m.conn != nil {
		_ = m.conn.Close() // nothing is kept in it
		m.conn = nil
	}
}

// lost reports whether an error is that of a connection, which another one may not
// have, and not an answer.
func lost(err error) bool {
	if e, ok := errors.AsType[dbus.Error](err); ok {
		return strings.HasSuffix(e.Name, ".NoReply") || strings.HasSuffix(e.Name, ".Disconnected")
	}
	return err != nil && !errors.Is(err, fs.ErrPermission)
}
