// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package hostrun

import (
	"fmt"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/regcred/regcred/internal/systemd"
)

// execStart is an element of ExecStart; its D-Bus type is (sasb).
type execStart struct {
	Path          string
	Args          []string // includes the program's name
	IgnoreFailure bool
}

// unitProperties returns the unit's properties.
//
// RemainAfterExit keeps the exit code until it has been read. Otherwise it could be lost,
// because units cannot be referenced over the private socket and a signal can be missed.
// SuccessExitStatus contains all exit codes of programs, because systemd logs a failed unit
// and reports the system as "degraded". An ExecStart= with "-" would hide programs that
// cannot be executed. Type=simple is sufficient, because programs that cannot be executed
// also have an exit code. Type=exec needs systemd 240.
//
// Output is written to memory and not to pipes. If the pod ended, the program's next write
// to a pipe would kill it.
func (u *unitRun) unitProperties(c Command) (list []systemd.Property) {
	add := func(name string, value any) {
		list = append(list, systemd.Property{Name: name, Value: dbus.MakeVariant(value)})
	}
	add("Description", fmt.Sprintf("%s, run from a pod (%s)", path.Base(c.Path), u.runID))
	add("Type", "simple")
	args := []string{c.Path}
	for _, a := range c.Args {
		args = append(args, strings.ReplaceAll(a, "$", "$$")) // no environment variables
	}
	add("ExecStart", []execStart{{Path: c.Path, Args: args}})
	add("SuccessExitStatus", allExitStatuses())
	add("RemainAfterExit", true)
	add("StandardOutputFileDescriptor", dbus.UnixFD(u.stdout.fd()))
	add("StandardErrorFileDescriptor", dbus.UnixFD(u.stderr.fd()))
	add("LogLevelMax", int32(4)) // warning: keep routine lines out of the journal
	if c.Timeout > 0 {
		add("RuntimeMaxUSec", uint64(max(c.Timeout/time.Microsecond, 1)))
	}
	return list
}

// exitStatuses holds exit codes and signals; its D-Bus type is (aiai).
type exitStatuses struct{ Codes, Signals []int32 }

// allExitStatuses returns the exit codes that a program may use.
func allExitStatuses() (s exitStatuses) {
	for code := int32(1); code < minExecFailureCode; code++ {
		s.Codes = append(s.Codes, code)
	}
	return s
}

// unitState is the state of a transient unit.
type unitState struct{ systemd.Unit }

// isOwn reports whether the run with this token has started the unit.
func (s unitState) isOwn(token string) bool { return strings.Contains(s.Description, "("+token+")") }

// foreignUnitFile returns the path of the unit file that the node has under this name, or
// "".
func (s unitState) foreignUnitFile() string {
	if s.Transient {
		return ""
	}
	return s.File
}

// isGone reports whether the unit does not exist.
func (s unitState) isGone() bool { return s.Load != "loaded" || s.Active == "inactive" && s.Job == 0 }

// isEnded reports whether the program has ended and no job is queued.
func (s unitState) isEnded() bool {
	return s.Job == 0 && (s.Active == "failed" || s.Active == "active" && s.Sub == "exited")
}

// systemd's exit codes for programs that it could not execute (systemd.exec(5)).
const minExecFailureCode, maxExecFailureCode = 200, 245

// exitCode returns the exit code of a program that has ended.
func (s unitState) exitCode(c Command) (code int, err error) {
	switch {
	case s.Result == "timeout":
		return 0, &KilledError{c.Path, fmt.Sprintf("it ran longer than %v", c.Timeout)}
	case s.ExitKind == 2, s.ExitKind == 3: // CLD_KILLED, CLD_DUMPED
		why := fmt.Sprintf("by signal %d (%v)", s.ExitStatus, syscall.Signal(s.ExitStatus))
		if s.Result == "oom-kill" {
			why = "the node was out of memory"
		}
		return 0, &KilledError{c.Path, why}
	case s.ExitKind != 1: // CLD_EXITED
		return 0, &NotStartedError{c.Path, 0, s.Result}
	case s.ExitStatus >= minExecFailureCode && s.ExitStatus <= maxExecFailureCode:
		return 0, &NotStartedError{c.Path, s.ExitStatus, s.Result}
	}
	return s.ExitStatus, nil
}
