// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package systemd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	dbusapi "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

const (
	privateSocket = "/run/systemd/private"
	serviceName   = "org.freedesktop.systemd1"
	objectPath    = dbus.ObjectPath("/org/freedesktop/systemd1")
)

// dialManager opens a connection to the private socket or, if that fails, to the bus. It fails when
// within ends. The connection is open until ctx ends.
func (c *Client) dialManager(ctx, within context.Context) error {
	life, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(within, cancel)
	defer stop()
	conn, err := dbusapi.NewConnection(func() (*dbus.Conn, error) { return dialSocket(life, c.SocketPath(), pingUntilReply) })
	if err != nil && c.Bus != "" && life.Err() == nil {
		privateErr := err
		hello := func(_ context.Context, conn *dbus.Conn) error { return conn.Hello() }
		if conn, err = dbusapi.NewConnection(func() (*dbus.Conn, error) { return dialSocket(life, c.Bus, hello) }); err != nil {
			err = fmt.Errorf("cannot reach systemd at %s (%w) or at %s (%w)", c.SocketPath(), kernelError(privateErr), c.Bus, kernelError(err))
		}
	}
	if err != nil {
		cancel()
		return err
	}
	c.conn, c.cancel = conn, cancel
	return nil
}

// dialSocket connects to a socket, authenticates and calls greet.
func dialSocket(ctx context.Context, path string, greet func(context.Context, *dbus.Conn) error) (*dbus.Conn, error) {
	conn, err := dbus.Dial("unix:path="+dbus.EscapeBusAddressValue(path), dbus.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	err = conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Geteuid()))})
	if err := cmp.Or(err, ctx.Err()); err != nil {
		_ = conn.Close() // only the first error is returned
		return nil, err
	}
	if err := greet(ctx, conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// pingUntilReply sends pings until systemd replies, even with an error. It works around systemd
// 252: if a message arrives together with the end of the authentication, systemd reads it only
// when another message arrives.
func pingUntilReply(ctx context.Context, conn *dbus.Conn) error {
	const interval, limit = 100 * time.Millisecond, 100
	replies := make(chan *dbus.Call, limit) // has room for all replies
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for sent := 0; ; {
		if sent < limit {
			conn.Object(serviceName, objectPath).GoWithContext(ctx, "org.freedesktop.DBus.Peer.Ping", 0, replies)
			sent++
		}
		select {
		case call := <-replies:
			if _, ok := errors.AsType[dbus.Error](call.Err); ok {
				return nil
			}
			return call.Err
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// kernelError returns the error of a failed system call without the call's name.
func kernelError(err error) error {
	if e, ok := errors.AsType[*os.SyscallError](err); ok {
		return e.Err
	}
	if errors.Is(err, io.EOF) {
		return errors.New("connection closed")
	}
	return err
}
