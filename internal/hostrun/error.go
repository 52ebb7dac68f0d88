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

	"github.com/regcred/regcred/internal/systemd"
)

// These errors fit on one line, are written for the cluster's administrator, and
// include the fix.

// NoSystemdError is returned if the node does not run systemd: the socket's directory is
// mounted, but does not contain systemd's files.
type NoSystemdError struct {
	Socket string
	Err    error
}

func (e *NoSystemdError) Error() string {
	return fmt.Sprintf("this node does not run systemd: %s has no socket (%v)", path.Dir(e.Socket), e.Err)
}

// Unwrap returns the underlying error.
func (e *NoSystemdError) Unwrap() error { return e.Err }

// NotMountedError is returned if the pod does not mount the directory with systemd's
// sockets. It is then unknown whether the node runs systemd.
type NotMountedError struct {
	Dir string
	Err error
}

func (e *NotMountedError) Error() string {
	return fmt.Sprintf("the node's systemd cannot be reached (%v): the node's %s is not mounted into this pod; the chart mounts a hostPath volume with the path %[2]s "+
		"at the same path; it is unknown whether the node has systemd", e.Err, e.Dir)
}

// Unwrap returns the underlying error.
func (e *NotMountedError) Unwrap() error { return e.Err }

// NotRespondingError is returned if the node has systemd but it does not respond.
type NotRespondingError struct {
	Socket string
	Err    error
}

func (e *NotRespondingError) Error() string {
	return fmt.Sprintf("this node has systemd (%s exists), but it does not respond at %s (%v): if this continues, check systemctl status on the node, "+
		"and make sure that the pod mounts the whole %[1]s directory, as in the chart", path.Dir(e.Socket), e.Socket, e.Err)
}

// Unwrap returns the underlying error.
func (e *NotRespondingError) Unwrap() error { return e.Err }

// PermissionError is returned if this process has no permission to use systemd.
type PermissionError struct {
	UID int // of this process
	Err error
}

func (e *PermissionError) Error() string {
	if e.UID != 0 {
		return fmt.Sprintf("no permission to use the node's systemd (%v): this process has uid %d, but systemd accepts only uid 0: set securityContext.runAsUser: 0, as in the chart", e.Err, e.UID)
	}
	return fmt.Sprintf("no permission to use the node's systemd (%v) although this process has uid 0: "+
		"with SELinux, the pod needs seLinuxOptions.type: spc_t (the chart's value seLinux.type; super_t on Bottlerocket); with AppArmor, appArmorProfile.type: Unconfined (the chart's value appArmorProfile); "+
		"in all cases, the pod needs the host user namespace (hostUsers: true)", e.Err)
}

// Unwrap returns the underlying error.
func (e *PermissionError) Unwrap() error { return e.Err }

// NotStartedError is returned if systemd could not start a program.
type NotStartedError struct {
	Path   string
	Status int    // of systemd.exec(5), or 0
	Result string // of the unit
}

func (e *NotStartedError) Error() string {
	switch e.Status {
	case 203:
		return fmt.Sprintf("the node cannot execute %s (203/EXEC): the file does not exist (if the kubelet uses another --root-dir, set the chart's value kubeletRootDir), is on a file system mounted noexec, "+
			"is blocked by SELinux, or is for another architecture; check it on the node with ls -lZ and findmnt -T", e.Path)
	case 0:
		return fmt.Sprintf("the node's systemd did not start %s (%s): see the journal", e.Path, e.Result)
	}
	return fmt.Sprintf("the node's systemd could not start %s: exit code %d (explained in systemd.exec(5)); see the journal", e.Path, e.Status)
}

// KilledError is returned if a program ended without an exit code.
type KilledError struct {
	Path   string
	Reason string
}

func (e *KilledError) Error() string { return fmt.Sprintf("%s was stopped: %s", e.Path, e.Reason) }

// ResultLostError is returned if a unit was removed before its result was read.
type ResultLostError struct{ Unit string }

func (e *ResultLostError) Error() string {
	return fmt.Sprintf("the unit %s was stopped by another user and no longer exists, so the program's result is unknown", e.Unit)
}

// UnknownResultError is returned if a program was started but its result or output is
// unknown. The program may still be running.
type UnknownResultError struct {
	Unit string
	Err  error
}

func (e *UnknownResultError) Error() string {
	return fmt.Sprintf("%s was started, but its result is unknown: %v", e.Unit, e.Err)
}

// Unwrap returns the underlying error.
func (e *UnknownResultError) Unwrap() error { return e.Err }

// UnitFileError is returned if the node has a unit file with the unit's name. systemd
// creates no transient unit with that name.
type UnitFileError struct{ Unit, File string }

func (e *UnitFileError) Error() string {
	return fmt.Sprintf("the node has its own unit file named %s (%s), so nothing can be run on behalf of a pod: if the unit is not needed, run "+
		"systemctl disable --now %[1]s on the node, remove the file, and run systemctl daemon-reload", e.Unit, e.File)
}

var errOutputTooLarge = fmt.Errorf("the output is longer than %d MiB; the rest was discarded", maxStdout>>20)

// convertError converts an error from systemd or the kernel to one of the errors above.
func (u *unitRun) convertError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%w; if %s was started, it continues to run", cause, u.runner.Unit)
	}
	e, answered := errors.AsType[dbus.Error](err)
	switch {
	case errors.Is(err, fs.ErrPermission), answered && strings.HasSuffix(e.Name, ".AccessDenied"), answered && strings.HasSuffix(e.Name, ".InteractiveAuthorizationRequired"):
		return &PermissionError{os.Geteuid(), err}
	case answered && (strings.HasSuffix(e.Name, ".PropertyReadOnly") || strings.HasSuffix(e.Name, ".UnknownProperty")):
		return fmt.Errorf("the node's systemd is too old to run a program on behalf of a pod: %w", err)
	case answered:
		return fmt.Errorf("the node's systemd: %w", err)
	case errors.Is(err, systemd.ErrNoResponse): // so systemd is running
		return fmt.Errorf("the node's systemd at %s is busy or hung: %w", u.systemd.SocketPath(), err)
	case !u.systemd.Reached() && systemd.IsConnectionLost(err) || errors.Is(err, syscall.ENOTSOCK):
		return unavailableError(u.systemd.SocketPath(), err)
	}
	return err
}

// mountInfoPath lists this process's mounts (proc(5)).
const mountInfoPath = "/proc/self/mountinfo"

// unavailableError returns why systemd does not respond at a socket. The node has no
// systemd, the pod does not mount the node's directory, or systemd is unavailable. The
// directory may exist even on a node without systemd, because a hostPath of type
// DirectoryOrCreate creates it.
func unavailableError(socket string, err error) error {
	dir := path.Dir(socket)
	data, readErr := os.ReadFile(mountInfoPath)
	if readErr != nil {
		return fmt.Errorf("systemd does not respond at %s (%w), and it is unknown whether %s is the node's directory: %w", socket, err, dir, readErr)
	}
	return unavailableErrorFor(string(data), socket, err)
}

// unavailableErrorFor is like unavailableError, but takes the content of mountInfoPath.
func unavailableErrorFor(mounts, socket string, err error) error {
	dir := path.Dir(socket)
	switch {
	case !isMountPoint(mounts, dir):
		return &NotMountedError{dir, err}
	case mayExist(socket), mayExist(dir + "/system"): // as sd_booted(3) checks
		return &NotRespondingError{socket, err}
	}
	return &NoSystemdError{socket, err}
}

// isMountPoint reports whether a directory is a mount point.
func isMountPoint(mounts, dir string) bool {
	for line := range strings.Lines(mounts) {
		if f := strings.Fields(line); len(f) > 4 && f[4] == dir { // dir has no space, which would appear as \040
			return true
		}
	}
	return false
}

// mayExist reports whether a file exists or cannot be examined.
func mayExist(name string) bool {
	_, err := os.Lstat(name)
	return !errors.Is(err, fs.ErrNotExist)
}
