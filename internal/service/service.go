// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package service restarts the unit of a kubelet and waits until a new, healthy kubelet
// runs.
//
//	before, err := s.State(ctx)
//	err = s.Reload(ctx)  // a unit or drop-in has changed
//	err = s.Restart(ctx)
//	now, err := s.WaitHealthy(ctx, before, service.HealthCriteria{Health: "http://127.0.0.1:10248/healthz"})
//
// The state of the unit does not show whether the kubelet works. For example, with
// systemd's Type=simple, a kubelet that exits after a second is first "active" and then
// "activating". A kubelet is healthy if its process is new and its health endpoint keeps
// responding.
package service

import (
	"context"
	"fmt"
	"time"
)

// Manager is a machine's service manager: [Systemd] or [OpenRC]. Each call returns when
// its context is done.
type Manager interface {
	// Reload reloads all unit files.
	Reload(ctx context.Context) error
	// Restart stops and starts a unit. It does not check that the unit stays up. A
	// restart that has begun continues even if ctx is done.
	Restart(ctx context.Context, unit string) error
	// State returns a unit's state.
	State(ctx context.Context, unit string) (State, error)
	// Log returns the last log lines that a unit wrote after since, up to the given
	// number.
	Log(ctx context.Context, unit string, since time.Time, lines int) ([]string, error)
}

// Service is the kubelet's unit. It is safe for concurrent use.
type Service struct {
	Manager Manager
	Name    string // "kubelet.service", or "kubelet" for OpenRC

	// LogFile is the kubelet's log file if the kubelet does not log to the service
	// manager. rke2's kubelet, for example, is a child process with its own log file.
	LogFile string

	Poll time.Duration // interval for polling the unit's state; 0 means 500 ms
}

// Timeouts of the service manager's operations. By default systemd allows 90 s each for
// stopping and starting a unit (systemd-system.conf(5)).
const (
	stateTimeout   = 25 * time.Second
	reloadTimeout  = 3 * time.Minute
	restartTimeout = 5 * time.Minute
	logTimeout     = 10 * time.Second
)

// Reload reloads all unit files. It returns an error if this unit is unusable
// afterwards.
func (s Service) Reload(ctx context.Context) error {
	if err := withTimeout(ctx, reloadTimeout, "reload units", s.Manager.Reload); err != nil {
		return err
	}
	state, err := s.State(ctx)
	if err != nil {
		return err
	}
	if err := state.CheckUsable(s.Name); err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	return nil
}

// Restart restarts the unit, or starts it if it is not running. It does not check the
// kubelet's health.
func (s Service) Restart(ctx context.Context) error {
	return withTimeout(ctx, restartTimeout, "restart "+s.Name, func(ctx context.Context) error { return s.Manager.Restart(ctx, s.Name) })
}

// State returns the unit's state.
func (s Service) State(ctx context.Context) (state State, err error) {
	err = withTimeout(ctx, stateTimeout, "get the state of "+s.Name, func(ctx context.Context) error {
		state, err = s.Manager.State(ctx, s.Name)
		return err
	})
	return state, err
}
