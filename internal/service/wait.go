// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"time"
)

// HealthCriteria define when a kubelet is healthy.
type HealthCriteria struct {
	// Health is a URL that must return 200. If it is "" (healthzPort 0), only the
	// process is checked.
	Health string

	MinHealthy time.Duration // how long the kubelet must stay healthy; 0 means 10 s
	Timeout    time.Duration // time limit; 0 means 4 min, as in kubeadm
	Restarts   int           // number of automatic restarts after which the wait fails; 0 means 3
}

// TimeoutOrDefault returns Timeout or, if it is 0, the default.
func (w HealthCriteria) TimeoutOrDefault() time.Duration { return cmp.Or(w.Timeout, 4*time.Minute) }

// UnhealthyError is returned if no new, healthy kubelet is running.
type UnhealthyError struct {
	Unit   string
	Waited time.Duration
	Cause  error
	State  State    // the last state that was read
	Lines  []string // end of the unit's log, without secrets; the most informative line first
}

// Error returns a one-line message that includes the first of Lines.
func (e *UnhealthyError) Error() string {
	text := fmt.Sprintf("%s: no healthy new kubelet after %s: %v", e.Unit, e.Waited.Round(100*time.Millisecond), e.Cause)
	if e.State.Active != "" {
		text += "; the unit is " + e.State.String()
	}
	if len(e.Lines) > 0 {
		text += "; its log: " + e.Lines[0]
	}
	return text
}

// Unwrap returns the reason, which may be a context's error.
func (e *UnhealthyError) Unwrap() error { return e.Cause }

// WaitHealthy waits until the unit runs a new process that stays healthy for want.MinHealthy. It
// returns the unit's last state. Errors are of type [*UnhealthyError]. WaitHealthy fails early if
// the unit has stopped or keeps restarting.
func (s Service) WaitHealthy(ctx context.Context, before State, want HealthCriteria) (State, error) {
	want.MinHealthy = cmp.Or(want.MinHealthy, 10*time.Second)
	want.Restarts = cmp.Or(want.Restarts, 3)
	begin := time.Now()
	bounded, cancel := context.WithTimeoutCause(ctx, want.TimeoutOrDefault(), timeoutError("timed out"))
	defer cancel()
	w := healthWatch{service: s, want: want, before: before, previous: before}
	err := w.run(bounded)
	if err == nil {
		return w.previous, nil
	}
	return w.previous, &UnhealthyError{
		Unit: s.Name, Waited: time.Since(begin), Cause: err, State: w.previous,
		Lines: w.recentLog(ctx),
	}
}

// healthWatch is the progress of a WaitHealthy call.
type healthWatch struct {
	service  Service
	want     HealthCriteria
	before   State
	previous State

	healthySince     time.Time // when the kubelet became healthy; zero if it is unhealthy
	newProcessStart  time.Time // start of the first new process
	lastUnhealthy    error     // why the kubelet was last unhealthy
	restarts         int       // as counted by the service manager
	latestProcess    State     // state that contains the latest new process
	earlierProcesses int       // number of new processes before that process
}

// run polls the unit's state until the wait is over.
func (w *healthWatch) run(ctx context.Context) error {
	tick := time.NewTicker(cmp.Or(w.service.Poll, 500*time.Millisecond))
	defer tick.Stop()
	for {
		done, err := w.pollOnce(ctx)
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return w.timeoutError(context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// timeoutError returns the error of a wait that timed out or was canceled.
func (w *healthWatch) timeoutError(cause error) error {
	if w.lastUnhealthy == nil {
		return fmt.Errorf("%w; the unit has not yet stayed healthy for %s", cause, w.want.MinHealthy)
	}
	return fmt.Errorf("%w; last: %w", cause, w.lastUnhealthy)
}

// pollOnce reads the unit's state once. It returns an error if further waiting is
// pointless.
func (w *healthWatch) pollOnce(ctx context.Context) (done bool, err error) {
	asked := time.Now()
	state, err := w.service.State(ctx)
	if err == nil {
		if err := w.recordState(state); err != nil {
			return false, err
		}
		err = w.checkHealthy(ctx, state)
	}
	if err != nil {
		w.healthySince = time.Time{}
		if ctx.Err() == nil || w.lastUnhealthy == nil { // otherwise err only results from ctx
			w.lastUnhealthy = err
		}
		return false, nil
	}
	// Another process may have sent the health response. It counts only if the new process is still
	// running at the next poll.
	if w.healthySince.IsZero() {
		w.healthySince = asked
		return false, nil
	}
	return asked.Sub(w.healthySince) >= w.want.MinHealthy, nil
}

// recordState records a state. It returns an error if further waiting is pointless.
func (w *healthWatch) recordState(state State) error {
	if !state.HasSameProcess(w.previous) {
		w.healthySince = time.Time{}
	}
	w.countRestarts(state)
	if w.newProcessStart.IsZero() && !state.Started.Equal(w.before.Started) {
		w.newProcessStart = state.Started
	}
	w.previous = state
	return w.giveUpReason()
}

// countRestarts counts restarts as reported by the service manager, and also counts new processes.
// Not every service manager counts restarts.
func (w *healthWatch) countRestarts(state State) {
	if state.Restarts >= w.previous.Restarts {
		w.restarts += state.Restarts - w.previous.Restarts
	} else {
		w.restarts += state.Restarts // a manual start resets the counter
	}
	if state.MainPID == 0 || state.HasSameProcess(w.before) || state.HasSameProcess(w.latestProcess) {
		return
	}
	if w.latestProcess.MainPID != 0 {
		w.earlierProcesses++
	}
	w.latestProcess = state
}

// giveUpReason returns why further waiting is useless, or nil if it is not.
func (w *healthWatch) giveUpReason() error {
	restarts := max(w.restarts, w.earlierProcesses)
	switch s := w.previous; {
	case s.CheckUsable(w.service.Name) != nil:
		return s.CheckUsable(w.service.Name)
	case s.IsStopped() && s.Active == "inactive" && s.ConditionsFailed:
		return errors.New("a Condition in the unit is not met, so the unit was not started")
	case s.IsStopped() && w.newProcessStart.IsZero():
		return errors.New("it was not started")
	case s.IsStopped():
		return errors.New("it exited and was not restarted")
	case restarts >= w.want.Restarts:
		return fmt.Errorf("it keeps exiting: restarted %d times", restarts)
	}
	return nil
}

// checkHealthy returns why a unit is unhealthy, or nil if it is healthy.
func (w *healthWatch) checkHealthy(ctx context.Context, s State) error {
	switch {
	case s.MainPID == 0:
		return errors.New("no process is running")
	case s.HasSameProcess(w.before):
		return fmt.Errorf("the old process %d is still running", s.MainPID)
	}
	if w.want.Health != "" {
		if err := checkHealth(ctx, w.want.Health); err != nil {
			return fmt.Errorf("%s: %w", w.want.Health, err)
		}
	}
	if !s.IsRunning() {
		return fmt.Errorf("the unit is %s", s)
	}
	return nil
}

// healthCheckTimeout is the timeout of a health check.
const healthCheckTimeout = 5 * time.Second

// checkHealth checks that a kubelet's health endpoint responds with 200. It uses no proxy and
// follows no redirect.
func checkHealth(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, healthCheckTimeout, timeoutError("timed out after "+healthCheckTimeout.String()))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return responseError(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("HTTP status %d", resp.StatusCode)
	}
	return nil
}

// responseError returns why there was no response.
func responseError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("no response: %w", context.Cause(ctx))
	}
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e
	}
	if errors.Is(err, io.EOF) {
		return errors.New("connection closed without a response")
	}
	return err
}
