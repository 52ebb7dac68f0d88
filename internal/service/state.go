// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package service

import (
	"fmt"
	"strings"

	"github.com/regcred/regcred/internal/systemd"
	"github.com/regcred/regcred/internal/textfmt"
)

// State is the state of a unit at one moment, in systemd's terms.
type State systemd.Unit

// Signalled reports whether the last main process was ended by a signal.
func (s State) Signalled() bool { return s.ExitKind == 2 || s.ExitKind == 3 } // CLD_KILLED, CLD_DUMPED

// HasSameProcess reports whether both states have the same running main process. It also
// compares the start times, because process IDs may be reused.
func (s State) HasSameProcess(o State) bool {
	return s.MainPID != 0 && s.MainPID == o.MainPID && s.Invocation == o.Invocation && s.Started.Equal(o.Started)
}

// IsStopped reports whether the unit is stopped and will not be restarted automatically.
// Between two automatic restarts a unit is also "failed" or "inactive", but with a
// different substate ("failed-before-auto-restart", "dead-before-auto-restart").
func (s State) IsStopped() bool {
	return s.Job == 0 && (s.Active == "failed" && s.Sub == "failed" || s.Active == "inactive" && s.Sub == "dead")
}

// IsRunning reports whether the unit was started and is not stopping.
func (s State) IsRunning() bool { return s.Active == "active" || s.Active == "reloading" }

// String returns the state in systemctl's terms.
func (s State) String() string {
	words := []string{fmt.Sprintf("%s (%s)", s.Active, s.Sub)}
	if s.MainPID != 0 {
		words = append(words, fmt.Sprintf("process %d", s.MainPID))
	}
	if s.Result != "" && s.Result != "success" {
		words = append(words, s.Result)
	}
	switch {
	case s.Signalled():
		words = append(words, fmt.Sprintf("ended by signal %d", s.ExitStatus))
	case s.ExitStatus != 0:
		words = append(words, fmt.Sprintf("exit code %d", s.ExitStatus))
	}
	return textfmt.EscapeLine(strings.Join(words, ", "))
}

// CheckUsable returns an [*Error] that explains why a unit cannot be started, or nil if it
// can.
func (s State) CheckUsable(unit string) error {
	why, hint := "", ""
	switch s.Load {
	case "bad-setting", "error":
		why, hint = "its unit file or a drop-in is invalid", "systemd-analyze verify "+unit+" shows where"
	case "not-found":
		why, hint = "no such unit", "find the kubelet's unit: systemctl status $(pidof kubelet)"
	case "masked":
		why, hint = "the unit is masked", "systemctl unmask "+unit
	default:
		return nil
	}
	if s.LoadError != "" {
		why += ": " + textfmt.EscapeLine(s.LoadError)
	}
	return &Error{fmt.Errorf("%s (%s)", why, s.Load), hint}
}
