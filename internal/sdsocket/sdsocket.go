// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package sdsocket connects to systemd by its own socket, /run/systemd/private, which is
// there without a bus, and at which root alone is listened to.
package sdsocket

import (
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/godbus/dbus/v5"
)

// Path is the socket of this machine's systemd.
const Path = "/run/systemd/private"

// Dial connects for as long as ctx lasts, and returns once systemd has answered. It
// gives up with within.
func Dial(ctx, within context.Context, path string) (*dbus.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	conn, err := dbus.Dial("unix:path="+dbus.EscapeBusAddressValue(path), dbus.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	keep := context.AfterFunc(within, cancel)
	err = conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Geteuid()))})
	if err == nil {
		err = wake(within, conn)
	}
	if keep(); err != nil {
		cancel()
		_ = conn.Close() // the first error is what matters
		return nil, err
	}
	context.AfterFunc(conn.Context(), cancel)
	return conn, nil
}

// wake asks until there is an answer, whichever. A systemd (252) that reads a message
// together with the end of the greeting, as one does that is busy, does not look at it
// until another one comes.
func wake(ctx context.Context, conn *dbus.Conn) error {
	const again, most = 100 * time.Millisecond, 100
	answers := make(chan *dbus.Call, most) // with room for all
	tick := time.NewTicker(again)
	defer tick.Stop()
	for asked := 0; ; {
		if asked < most {
			conn.Object("org.freedesktop.systemd1", "/org/freedesktop/systemd1").GoWithContext(ctx, "org.freedesktop.DBus.Peer.Ping", 0, answers)
			asked++
		}
		select {
		case call := <-answers:
			if _, said := errors.AsType[dbus.Error](call.Err); said {
				return nil
			}
			return call.Err
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
