// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package service restarts the unit in which a kubelet runs, and says whether
// the kubelet that then runs is a new one, and works.
//
//	before, err := s.State(ctx)
//	err = s.Reload(ctx)  // a unit or drop-in has changed
//	err = s.Restart(ctx)
//	now, err := s.WaitHealthy(ctx, before, service.Want{Health: service.HealthURL("127.0.0.1", 10248)})
//
// A service manager's word is no health: with systemd's Type=simple a kubelet that
// ends after a second is "active", then "activating". What counts is another
// process than before, which answers and goes on to.
package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Manager is what starts and stops the units of a machine: [Systemd] or
// [OpenRC]. Each call ends with its context.
type Manager interface {
	// Reload makes it read its units again.
	Reload(ctx context.Context, unit string) error
	// Restart stops and starts a unit and returns when that has been done,
	// which does not say that what was started still runs. Once begun it is
	// carried through, also if ctx ends.
	Restart(ctx context.Context, unit string) error
	// State looks at a unit.
	State(ctx context.Context, unit string) (State, error)
	// Log returns the last lines that a unit's processes have written, from a
	// point in time on, at most so many.
	Log(ctx context.Context, unit string, since time.Time, lines int) ([]string, error)
}

// Service is a unit in which a kubelet runs. Nothing in it changes, and it may
// be used concurrently.
type Service struct {
	Manager Manager
	Name    string // "kubelet.service"; for OpenRC "kubelet"

	// LogFile is what the kubelet writes to if that is not what the manager
	// keeps of its unit: rke2's is a child with a file of its own.
	LogFile string

	Poll time.Duration // between two looks at the unit; 500 ms if 0
}

// How long a manager may take for one thing. A unit's stop and start take 90 s
// each, where nothing else is set (systemd-system.conf(5)).
const (
	stateWithin   = 25 * time.Second
	reloadWithin  = 3 * time.Minute
	restartWithin = 5 * time.Minute
	logWithin     = 10 * time.Second
)

// Detect returns what starts and stops the units of this machine. Without one
// the error is an [*Error].
func Detect() (Manager, error) { return detect("/") }

func detect(root string) (Manager, error) {
	if isDir(filepath.Join(root, "run/systemd/system")) { // sd_booted(3)
		return Systemd{}, nil
	}
	if isDir(filepath.Join(root, "run/openrc")) {
		return OpenRC{}, nil
	}
	return nil, &Error{errors.New("no supported service manager: neither systemd nor OpenRC is running"),
		"restart the kubelet by hand; in a container, mount the host's /run/systemd (or /run/openrc)"}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Reload makes the manager read its units again, and fails if it then cannot
// use this one.
func (s Service) Reload(ctx context.Context) error {
	err := within(ctx, reloadWithin, "reload units", func(ctx context.Context) error { return s.Manager.Reload(ctx, s.Name) })
	if err != nil {
		return err
	}
	state, err := s.State(ctx)
	if err != nil {
		return err
	}
	if err := state.Unusable(s.Name); err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	return nil
}

// Restart restarts the unit, and starts it if it does not run. When it returns
// the unit has been started, which says nothing of the kubelet's health.
func (s Service) Restart(ctx context.Context) error {
	return within(ctx, restartWithin, "restart "+s.Name, func(ctx context.Context) error { return s.Manager.Restart(ctx, s.Name) })
}

// State looks at the unit.
func (s Service) State(ctx context.Context) (state State, err error) {
	err = within(ctx, stateWithin, "get the state of "+s.Name, func(ctx context.Context) error {
		state, err = s.Manager.State(ctx, s.Name)
		return err
	})
	return state, err
}

func (s Service) poll() time.Duration { return cmp.Or(s.Poll, 500*time.Millisecond) }

// within gives f so long, and says what was attempted.
func within(ctx context.Context, limit time.Duration, what string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, timeout("no response within "+limit.String()))
	defer cancel()
	if err := f(ctx); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
