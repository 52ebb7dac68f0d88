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
)

// property is one of a transient unit: (sv).
type property struct {
	Name  string
	Value dbus.Variant
}

// execStart is an element of ExecStart: (sasb).
type execStart struct {
	Path          string
	Args          []string // with the program's name
	IgnoreFailure bool
}

// properties are those of the unit.
//
// That it remains after its program has ended keeps the exit code until somebody has
// read it: the private socket knows no reference to a unit, and a signal can be
// missed. A program's exit code is no failure of the unit, which would be logged, and
// would make the system "degraded"; one of systemd's own is. (With ExecStart's "-" it
// would run nothing, and call that success.) Type=simple is enough, since a program
// that cannot be executed has an exit code too; exec would need systemd 240.
//
// Output goes to memory and not through pipes: a program whose pod is gone would be
// ended by its next line.
func (u *unit) properties(c Command) (list []property) {
	add := func(name string, value any) { list = append(list, property{name, dbus.MakeVariant(value)}) }
	add("Description", fmt.Sprintf("%s, run from a pod (%s)", path.Base(c.Path), u.token))
	add("Type", "simple")
	args := []string{c.Path}
	for _, a := range c.Args {
		args = append(args, strings.ReplaceAll(a, "$", "$$")) // no variable of the environment
	}
	add("ExecStart", []execStart{{Path: c.Path, Args: args}})
	add("SuccessExitStatus", successes())
	add("RemainAfterExit", true)
	add("StandardOutputFileDescriptor", dbus.UnixFD(u.stdout.fd()))
	add("StandardErrorFileDescriptor", dbus.UnixFD(u.stderr.fd()))
	add("LogLevelMax", int32(4)) // warning: else each run has its lines in the journal
	if len(c.Env) > 0 {
		add("Environment", c.Env)
	}
	if c.Limit > 0 {
		add("RuntimeMaxUSec", uint64(max(c.Limit/time.Microsecond, 1)))
	}
	return list
}

// exitStatuses are exit codes and signals: (aiai).
type exitStatuses struct{ Codes, Signals []int32 }

// successes are the exit codes that are a program's.
func successes() (s exitStatuses) {
	for code := int32(1); code < firstOwn; code++ {
		s.Codes = append(s.Codes, code)
	}
	return s
}

// state is how a unit stands.
type state struct {
	load, active, sub, result, description string

	job    uint32 // that is queued or under way
	code   int32  // how its program ended: si_code of waitid(2); 0 if it has not
	status int32  // its exit code or signal
}

// stateOf reads what systemd says of a unit. What is absent stays zero.
func stateOf(p map[string]dbus.Variant) (s state) {
	read(p, "LoadState", &s.load)
	read(p, "ActiveState", &s.active)
	read(p, "SubState", &s.sub)
	read(p, "Result", &s.result)
	read(p, "Description", &s.description)
	read(p, "ExecMainCode", &s.code)
	read(p, "ExecMainStatus", &s.status)
	var job []any
	if read(p, "Job", &job); len(job) > 0 {
		s.job, _ = job[0].(uint32)
	}
	return s
}

func read[T any](p map[string]dbus.Variant, name string, to *T) { *to, _ = p[name].Value().(T) }

func (s state) ours(token string) bool { return strings.Contains(s.description, "("+token+")") }

// gone reports whether there is no such unit.
func (s state) gone() bool { return s.load != "loaded" || s.active == "inactive" && s.job == 0 }

// ended reports whether its program has, and nothing is under way.
func (s state) ended() bool {
	return s.job == 0 && (s.active == "failed" || s.active == "active" && s.sub == "exited")
}

// systemd's own exit codes, for what it did not come to execute (systemd.exec(5)).
const firstOwn, lastOwn = 200, 245

// exit is the exit code of a program that has ended.
func (s state) exit(c Command) (code int, err error) {
	switch {
	case s.result == "timeout":
		return 0, &KilledError{c.Path, fmt.Sprintf("it ran longer than %v", c.Limit)}
	case s.code == 2, s.code == 3: // CLD_KILLED, CLD_DUMPED
		why := fmt.Sprintf("by signal %d (%v)", s.status, syscall.Signal(s.status))
		if s.result == "oom-kill" {
			why = "the node was out of memory"
		}
		return 0, &KilledError{c.Path, why}
	case s.code != 1: // CLD_EXITED
		return 0, &NotStartedError{c.Path, 0, s.result}
	case s.status >= firstOwn && s.status <= lastOwn:
		return 0, &NotStartedError{c.Path, int(s.status), s.result}
	}
	return int(s.status), nil
}
