// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package hostrun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/godbus/dbus/v5"
)

// Errors are for whoever looks after the cluster: one line, with what to do.

// NoSystemdError means that no systemd answers at the socket.
type NoSystemdError struct {
	Socket string
	Err    error
}

func (e *NoSystemdError) Error() string {
	return fmt.Sprintf("no systemd answers at %s (%v): this node has none, or the pod has not got %s of the node as a hostPath", e.Socket, e.Err, path.Dir(e.Socket))
}

// Unwrap returns the failure.
func (e *NoSystemdError) Unwrap() error { return e.Err }

// DeniedError means that this process may not ask systemd to run something.
type DeniedError struct {
	UID int // of this process
	Err error
}

func (e *DeniedError) Error() string {
	if e.UID != 0 {
		return fmt.Sprintf("the node's systemd may not be asked (%v): this process has uid %d, and it takes 0: securityContext.runAsUser: 0", e.Err, e.UID)
	}
	return fmt.Sprintf("the node's systemd may not be asked (%v) although this process has uid 0: "+
		"with SELinux the pod needs seLinuxOptions.type: spc_t (Bottlerocket: super_t), with AppArmor appArmorProfile.type: Unconfined, and in any case the node's users (hostUsers: true)", e.Err)
}

// Unwrap returns the refusal.
func (e *DeniedError) Unwrap() error { return e.Err }

// NotStartedError means that systemd could not start a program.
type NotStartedError struct {
	Path   string
	Status int    // of systemd.exec(5); 0 if there is none
	Result string // of the unit
}

func (e *NotStartedError) Error() string {
	switch e.Status {
	case 203:
		return fmt.Sprintf("the node cannot execute %s (203/EXEC): it is not there (has its kubelet another --root-dir?), or is on a file system mounted noexec, "+
			"or SELinux forbids it, or it is for another architecture; on the node, ls -lZ of it and findmnt -T of it tell which", e.Path)
	case 0:
		return fmt.Sprintf("the node's systemd did not start %s (%s): its journal says why", e.Path, e.Result)
	}
	return fmt.Sprintf("the node's systemd could not start %s: exit code %d of systemd.exec(5); its journal says why", e.Path, e.Status)
}

// KilledError means that a program has ended without an exit code.
type KilledError struct {
	Path string
	Why  string
}

func (e *KilledError) Error() string { return fmt.Sprintf("%s was ended: %s", e.Path, e.Why) }

// LostError means that it is not known how a program has ended.
type LostError struct{ Unit string }

func (e *LostError) Error() string {
	return fmt.Sprintf("%s is gone, and how it ended is not known: somebody has stopped it", e.Unit)
}

// UnitFileError means that a node has a unit of its own of the name, so that no
// transient one can be made.
type UnitFileError struct{ Unit, File string }

func (e *UnitFileError) Error() string {
	return fmt.Sprintf("the node has a unit file of its own named %s (%s), so nothing can be run for a pod: if nobody needs it, on the node, "+
		"systemctl disable --now %[1]s, remove the file, and systemctl daemon-reload", e.Unit, e.File)
}

var errTooMuch = fmt.Errorf("it printed more than %d MiB; the rest is lost", maxStdout>>20)

// explain makes one of the errors above of what systemd, or the kernel, has said.
func (u *unit) explain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%w; %s goes on, if it was begun", cause, u.runner.Unit)
	}
	e, answered := errors.AsType[dbus.Error](err)
	switch {
	case errors.Is(err, fs.ErrPermission), answered && strings.HasSuffix(e.Name, ".AccessDenied"), answered && strings.HasSuffix(e.Name, ".InteractiveAuthorizationRequired"):
		return &DeniedError{os.Geteuid(), err}
	case answered && (strings.HasSuffix(e.Name, ".PropertyReadOnly") || strings.HasSuffix(e.Name, ".UnknownProperty")):
		return fmt.Errorf("the node's systemd is too old to run a program for a pod: %w", err)
	case answered:
		return fmt.Errorf("the node's systemd: %w", err)
	case errors.Is(err, errNoAnswer): // there is one
		return fmt.Errorf("the node's systemd, at %s, is busy or hangs: %w", u.systemd.path(), err)
	case !u.systemd.known && lost(err) || errors.Is(err, syscall.ENOTSOCK):
		return &NoSystemdError{u.systemd.path(), err}
	}
	return err
}
