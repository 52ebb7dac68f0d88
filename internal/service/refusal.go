// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/godbus/dbus/v5"
	"github.com/regcred/regcred/internal/textfmt"
)

// explainDBusError adds hints to a D-Bus error. If ctx is done, it returns an error with the cause,
// because the end of ctx closes the connection.
func explainDBusError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return &Error{fmt.Errorf("systemd did not respond: %w", context.Cause(ctx)), "check systemd: systemctl is-system-running"}
	}
	if e, ok := errors.AsType[dbus.Error](err); ok {
		return convertDBusError(e)
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return &Error{err, rootHint()}
	case errors.Is(err, dbus.ErrClosed), errors.Is(err, io.EOF), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		return errors.New("systemd closed the connection")
	}
	return err
}

// convertDBusError converts an error returned by systemd or the bus.
func convertDBusError(e dbus.Error) error {
	const most = 512 // bytes
	text := e.Error()
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	name := e.Name[strings.LastIndexByte(e.Name, '.')+1:]
	err := errors.New(textfmt.EscapeLine(strings.TrimSpace(text + " (" + name + ")")))
	switch name {
	case "AccessDenied", "InteractiveAuthorizationRequired", "AuthFailed":
		return &Error{err, permissionHint(err.Error())}
	case "NoSuchUnit", "BadUnitSetting", "LoadFailed", "UnitMasked":
		return &Error{err, "show the unit: systemctl cat UNIT"}
	case "ShuttingDown", "TransactionIsDestructive":
		return &Error{err, "the machine is shutting down or the unit is being stopped: try again later"}
	case "NoReply", "Timeout", "TimedOut":
		return &Error{err, "check systemd: systemctl is-system-running"}
	case "ServiceUnknown", "NameHasNoOwner":
		return &Error{err, "systemd is not available on D-Bus: check that it is PID 1 here"}
	}
	return err
}

// permissionHint returns how to get permission when AppArmor, SELinux or polkit denies
// access.
func permissionHint(text string) string {
	switch {
	case strings.Contains(text, "AppArmor"):
		return "this pod's AppArmor profile blocks D-Bus: set the appArmorProfile type to Unconfined, or mount /run/systemd, whose socket does not require D-Bus"
	case strings.Contains(text, "SELinux"):
		return "SELinux forbids the request: in a pod, set the seLinuxOptions type to spc_t"
	}
	return rootHint()
}

func rootHint() string {
	if os.Geteuid() != 0 {
		return "run it as root (sudo)"
	}
	return "polkit or the container's user namespace denies access, even to root"
}
