// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package service

import (
	"fmt"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/shown"
)

// State is a unit at one moment.
type State struct {
	Load      string // "loaded", "not-found", "bad-setting", "masked", …
	LoadError string // why it is not loaded; "" if unknown
	Enabled   string // "enabled", "disabled", "static", …; "" if unknown
	Active    string // "active", "activating", "failed", …: systemd's words
	Sub       string // "running", "auto-restart", …

	MainPID    int       // 0 if nothing runs
	Invocation string    // identifies this start of the unit; "" if unknown
	Started    time.Time // start of the last main process; zero if there was none
	Restarts   int       // automatic restarts since the unit was started

	Result     string // of the last run: "success", "exit-code", "watchdog", "start-limit-hit", …
	ExitCode   int    // of the last main process that has ended, or its signal
	Signalled  bool   // ExitCode is a signal
	Conditions bool   // the unit's conditions were met when it was last started, if ever
	Job        int    // the manager's job for the unit, queued or running; 0 if none
}

// SameProcess reports whether both states have the same running main process. Process
// ids may be reused, so the start is compared too.
func (s State) SameProcess(o State) bool {
	return s.MainPID != 0 && s.MainPID == o.MainPID && s.Invocation == o.Invocation && s.Started.Equal(o.Started)
}

// Ended reports whether the unit is stopped and will not be restarted automatically.
// Between two automatic starts a unit is "failed" or "inactive" too, but in another
// substate ("failed-before-auto-restart", "dead-before-auto-restart").
func (s State) Ended() bool {
	return s.Job == 0 && (s.Active == "failed" && s.Sub == "failed" || s.Active == "inactive" && s.Sub == "dead")
}

// Runs reports whether the unit has been started and is not stopping.
func (s State) Runs() bool { return s.Active == "active" || s.Active == "reloading" }

// String returns the state in the words of systemctl.
func (s State) String() string {
	words := []string{fmt.Sprintf("%s (%s)", s.Active, s.Sub)}
	if s.MainPID != 0 {
		words = append(words, fmt.Sprintf("process %d", s.MainPID))
	}
	if s.Result != "" && s.Result != "success" {
		words = append(words, s.Result)
	}
	switch {
	case s.Signalled:
		words = append(words, fmt.Sprintf("ended by signal %d", s.ExitCode))
	case s.ExitCode != 0:
		words = append(words, fmt.Sprintf("exit code %d", s.ExitCode))
	}
	return shown.Line(strings.Join(words, ", "))
}

// Unusable returns why a unit cannot be started, as an [*Error]; nil if it can.
func (s State) Unusable(unit string) error {
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
		why += ": " + shown.Line(s.LoadError)
	}
	return &Error{fmt.Errorf("%s (%s)", why, s.Load), hint}
}
