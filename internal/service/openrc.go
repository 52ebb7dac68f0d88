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

// OpenRC is a [Manager] that uses OpenRC. The zero value uses this machine's OpenRC.
type OpenRC struct {
	Command string // "" means "rc-service" from PATH
	Root    string // root of OpenRC's files; "" means "/"
}

func (o OpenRC) commandName() string { return cmp.Or(o.Command, "rc-service") }

// rootPath returns the path of a file below Root.
func (o OpenRC) rootPath(elem ...string) string {
	return filepath.Join(append([]string{cmp.Or(o.Root, "/")}, elem...)...)
}

// Reload does nothing, because OpenRC always reads the current script.
func (OpenRC) Reload(context.Context) error { return nil }

// Restart runs "rc-service UNIT restart". OpenRC cannot restart a crashed service until
// its state is reset ("zap").
func (o OpenRC) Restart(ctx context.Context, unit string) error {
	if s, err := o.State(ctx, unit); err == nil && s.Active == "failed" {
		if err := runDetached(ctx, o.commandName(), unit, "zap"); err != nil {
			return err
		}
	}
	return runDetached(ctx, o.commandName(), unit, "restart")
}

// State runs "rc-service UNIT status" and reads the process ID from OpenRC's files.
func (o OpenRC) State(ctx context.Context, unit string) (State, error) {
	out, err := commandOutput(ctx, o.commandName(), unit, "status")
	if strings.Contains(fmt.Sprint(out, err), "does not exist") {
		return State{Load: "not-found", Active: "inactive", Sub: "dead"}, nil
	}
	_, word, found := strings.Cut(out, "status: ")
	if !found { // the exit code is no help, because it is also nonzero for a stopped service
		return State{}, cmp.Or(err, errors.New("printed no status"))
	}
	word, _, _ = strings.Cut(word, "\n")
	word, _, _ = strings.Cut(word, " ")
	pid, supervised, err := o.mainPID(ctx, unit)
	if err != nil {
		return State{}, err
	}
	s := State{Load: "loaded"}
	ticks, err := o.startTicks(ctx, pid)
	if err != nil {
		return State{}, err
	}
	if ticks != 0 {
		s.MainPID, s.Invocation, s.Started = pid, strconv.FormatInt(ticks, 10), o.startTime(ctx, ticks)
	}
	s.Active, s.Sub = systemdState(word, s.MainPID != 0, supervised)
	return s, nil
}

// systemdState converts an OpenRC state to systemd's terms.
func systemdState(word string, runs, supervised bool) (active, sub string) {
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

// mainPID returns the process ID of a unit, or 0 if unknown. With a supervisor, it
// returns the supervised process.
func (o OpenRC) mainPID(ctx context.Context, unit string) (pid int, supervised bool, err error) {
	kept := o.rootPath("run/openrc/options", unit)
	for _, name := range []string{filepath.Join(kept, "child_pid"), o.rootPath(o.pidFilePath(ctx, kept, unit))} {
		data, err := regularfile.Read(ctx, name, 64)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, false, err
		}
		pid, err := strconv.Atoi(string(bytes.TrimSpace(data)))
		if err != nil || pid < 1 {
			continue // the file is being written
		}
		return pid, filepath.Base(name) == "child_pid", nil
	}
	return 0, false, nil
}

// pidFilePath returns the pidfile set by the unit's script, or the default path.
func (o OpenRC) pidFilePath(ctx context.Context, kept, unit string) string {
	data, err := regularfile.Read(ctx, filepath.Join(kept, "pidfile"), 4<<10)
	if name := string(bytes.TrimSpace(data)); err == nil && filepath.IsAbs(name) {
		return name
	}
	return "/run/" + unit + ".pid"
}

// startTicks returns when a process started, in hundredths of a second since boot
// (field 22 of proc_pid_stat(5)). It is used to detect reused process IDs. It returns 0
// if the process does not exist.
func (o OpenRC) startTicks(ctx context.Context, pid int) (int64, error) {
	if pid == 0 {
		return 0, nil
	}
	data, err := regularfile.Read(ctx, o.rootPath("proc", strconv.Itoa(pid), "stat"), 4<<10)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	// The process name in parentheses may itself contain parentheses.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" {
		return 0, nil
	}
	return strconv.ParseInt(fields[19], 10, 64)
}

// startTime returns when a process started, accurate to about a second.
func (o OpenRC) startTime(ctx context.Context, ticks int64) time.Time {
	data, _ := regularfile.Read(ctx, o.rootPath("proc/stat"), 1<<20)
	_, rest, _ := strings.Cut(string(data), "\nbtime ")
	boot, _, _ := strings.Cut(rest, "\n")
	seconds, err := strconv.ParseInt(boot, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(seconds+ticks/100-1, 0)
}

// Log reads the log files that unit scripts usually configure: /var/log/UNIT*.log and
// /var/log/UNIT/*.log.
func (o OpenRC) Log(ctx context.Context, unit string, since time.Time, lines int) (read []string, err error) {
	for _, pattern := range []string{unit + "*.log", unit + "/*.log"} {
		names, err := filepath.Glob(o.rootPath("var/log", pattern))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			of, err := readLogFile(name, since)
			if err != nil {
				return nil, err
			}
			read = append(read, of...)
		}
	}
	return read[max(0, len(read)-lines):], nil
}
