// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package service

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/regcred/regcred/internal/regularfile"
)

// OpenRC is OpenRC by its command rc-service. The zero value is that of this machine.
type OpenRC struct {
	Command string // "rc-service" of the PATH if ""
	Root    string // where its files are; "/" if ""
}

func (o OpenRC) command() string { return cmp.Or(o.Command, "rc-service") }

// path is where a file of the machine is found.
func (o OpenRC) path(elem ...string) string {
	return filepath.Join(append([]string{cmp.Or(o.Root, "/")}, elem...)...)
}

// Reload does nothing: OpenRC reads a script each time that it uses it.
func (OpenRC) Reload(context.Context, string) error { return nil }

// Restart is "rc-service UNIT restart". OpenRC cannot stop what has ended by
// itself, and would not start it then: that has to be forgotten ("zap").
func (o OpenRC) Restart(ctx context.Context, unit string) error {
	if s, err := o.State(ctx, unit); err == nil && s.Active == "failed" {
		if err := carryThrough(ctx, o.command(), unit, "zap"); err != nil {
			return err
		}
	}
	return carryThrough(ctx, o.command(), unit, "restart")
}

// State asks "rc-service UNIT status", and what OpenRC keeps of its daemons for
// their processes.
func (o OpenRC) State(ctx context.Context, unit string) (State, error) {
	out, err := output(ctx, o.command(), unit, "status")
	if strings.Contains(fmt.Sprint(out, err), "does not exist") {
		return State{Load: "not-found", Active: "inactive", Sub: "dead"}, nil
	}
	_, word, found := strings.Cut(out, "status: ")
	if !found { // the exit code is not 0 of one that is stopped, too
		return State{}, cmp.Or(err, errors.New("printed no status"))
	}
	word, _, _ = strings.Cut(word, "\n")
	word, _, _ = strings.Cut(word, " ")
	pid, supervised, err := o.mainPID(ctx, unit)
	if err != nil {
		return State{}, err
	}
	s := State{Load: "loaded", Conditions: true}
	ticks, err := o.startTicks(ctx, pid)
	if err != nil {
		return State{}, err
	}
	if ticks != 0 {
		s.MainPID, s.Invocation, s.Started = pid, strconv.FormatInt(ticks, 10), o.started(ctx, ticks)
	}
	s.Active, s.Sub = openRCState(word, s.MainPID != 0, supervised)
	return s, nil
}

// openRCState says in systemd's words what OpenRC said.
func openRCState(word string, runs, supervised bool) (active, sub string) {
	switch {
	case word == "stopped":
		return "inactive", "dead"
	case word == "stopping":
		return "deactivating", "stop"
	case (word == "started" || word == "crashed") && !runs && supervised:
		return "activating", "auto-restart"
	case word == "started" && runs:
		return "active", "running"
	case word == "started", word == "crashed":
		return "failed", "failed"
	}
	return "activating", word
}

// mainPID is the process that OpenRC has started for a unit, 0 if it names none;
// of one that has a supervisor it is the supervised, not the supervisor.
func (o OpenRC) mainPID(ctx context.Context, unit string) (pid int, supervised bool, err error) {
	kept := o.path("run/openrc/options", unit)
	for _, name := range []string{filepath.Join(kept, "child_pid"), o.path(o.pidfile(ctx, kept, unit))} {
		data, err := regularfile.Read(ctx, name, 64)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, false, err
		}
		pid, err := strconv.Atoi(string(bytes.TrimSpace(data)))
		if err != nil || pid < 1 {
			continue // it is being written
		}
		return pid, filepath.Base(name) == "child_pid", nil
	}
	return 0, false, nil
}

// pidfile is the file that a unit's script names, or the one that is usual.
func (o OpenRC) pidfile(ctx context.Context, kept, unit string) string {
	data, err := regularfile.Read(ctx, filepath.Join(kept, "pidfile"), 4<<10)
	if name := string(bytes.TrimSpace(data)); err == nil && filepath.IsAbs(name) {
		return name
	}
	return "/run/" + unit + ".pid"
}

// startTicks tells a process from others that had or will have its id: the
// moment of its start since the machine's boot, in hundredths of a second
// (field 22 of proc_pid_stat(5)). 0 means that there is no such process.
func (o OpenRC) startTicks(ctx context.Context, pid int) (int64, error) {
	if pid == 0 {
		return 0, nil
	}
	data, err := regularfile.Read(ctx, o.path("proc", strconv.Itoa(pid), "stat"), 4<<10)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	// The name in parentheses may hold anything, also these.
	_, rest, _ := cutLast(string(data), ")")
	fields := strings.Fields(rest)
	if len(fields) < 20 || fields[0] == "Z" {
		return 0, nil
	}
	return strconv.ParseInt(fields[19], 10, 64)
}

// started is when a process began, by the clock, to a second or so.
func (o OpenRC) started(ctx context.Context, ticks int64) time.Time {
	data, _ := regularfile.Read(ctx, o.path("proc/stat"), 1<<20) // without it: zero, and no log
	_, rest, _ := strings.Cut(string(data), "\nbtime ")
	boot, _, _ := strings.Cut(rest, "\n")
	seconds, err := strconv.ParseInt(boot, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(seconds+ticks/100-1, 0)
}

// Log reads the files that a unit's script, as is usual, has its daemon write:
// /var/log/UNIT*.log and /var/log/UNIT/*.log.
func (o OpenRC) Log(ctx context.Context, unit string, since time.Time, lines int) (read []string, err error) {
	for _, pattern := range []string{unit + "*.log", unit + "/*.log"} {
		names, err := filepath.Glob(o.path("var/log", pattern))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			of, err := fileLog(name, since)
			if err != nil {
				return nil, err
			}
			read = append(read, of...)
		}
	}
	return read[max(0, len(read)-lines):], nil
}
