// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// Want is what a kubelet has to show to be called healthy.
type Want struct {
	// Health is a URL that answers 200; "" asks none (healthzPort 0), and then
	// only its process is looked at.
	Health string

	Stable   time.Duration // for so long, without a break; 10 s if 0
	Within   time.Duration // in all; 4 min if 0, as kubeadm waits
	Restarts int           // by the manager, after so many it is given up; 3 if 0
}

// Deadline is Within, or what that is if it is 0.
func (w Want) Deadline() time.Duration { return cmp.Or(w.Within, 4*time.Minute) }

func (w Want) withDefaults() Want {
	w.Stable = cmp.Or(w.Stable, 10*time.Second)
	w.Within = w.Deadline()
	w.Restarts = cmp.Or(w.Restarts, 3)
	return w
}

// UnhealthyError says what was waited for, and what was seen instead.
type UnhealthyError struct {
	Unit   string
	Waited time.Duration
	Why    error
	State  State    // as it was seen last
	Lines  []string // the last of its log, fit to be shown; the one that says most is the first
}

// Error is one line, with the first of the log.
func (e *UnhealthyError) Error() string {
	text := fmt.Sprintf("%s: no healthy new kubelet after %s: %v", e.Unit, e.Waited.Round(100*time.Millisecond), e.Why)
	if e.State.Active != "" {
		text += "; the unit is " + e.State.String()
	}
	if len(e.Lines) > 0 {
		text += "; its log: " + e.Lines[0]
	}
	return text
}

// Unwrap returns the reason: also the end of a context.
func (e *UnhealthyError) Unwrap() error { return e.Why }

// WaitHealthy waits until another process than that of before runs in the unit,
// answers, and has gone on to do so for as long as is wanted. It returns the
// unit as it then is. An error is an [*UnhealthyError]: it comes early if the
// unit has ended and is not started again, or is again and again.
func (s Service) WaitHealthy(ctx context.Context, before State, want Want) (State, error) {
	want = want.withDefaults()
	begin := time.Now()
	bounded, cancel := context.WithTimeoutCause(ctx, want.Within, timeout("timed out"))
	defer cancel()
	w := watch{service: s, want: want, before: before, previous: before}
	err := w.run(bounded)
	if err == nil {
		return w.previous, nil
	}
	return w.previous, &UnhealthyError{
		Unit: s.Name, Waited: time.Since(begin), Why: err, State: w.previous,
		Lines: w.log(ctx),
	}
}

// watch is what has been seen of a unit since it was restarted.
type watch struct {
	service  Service
	want     Want
	before   State
	previous State

	good     time.Time // since when it is healthy; zero if it is not
	since    time.Time // when the first new process was started
	lacking  error     // what it was the last time that it was not
	restarts int       // as the manager counts them
	process  State     // with the last new process
	others   int       // new processes before that one
}

// run looks until the wait is over.
func (w *watch) run(ctx context.Context) error {
	tick := time.NewTicker(w.service.poll())
	defer tick.Stop()
	for {
		done, err := w.look(ctx)
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return w.unmet(context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// unmet is the error of a wait that was ended from outside.
func (w *watch) unmet(cause error) error {
	if w.lacking == nil {
		return fmt.Errorf("%w; the unit has not yet stayed healthy for %s", cause, w.want.Stable)
	}
	return fmt.Errorf("%w; last: %w", cause, w.lacking)
}

// look looks at the unit once. It fails if waiting is of no use any more.
func (w *watch) look(ctx context.Context) (done bool, err error) {
	asked := time.Now()
	state, err := w.service.State(ctx)
	if err == nil {
		if err := w.note(state); err != nil {
			return false, err
		}
		err = w.healthy(ctx, state)
	}
	if err != nil {
		w.good = time.Time{}
		if ctx.Err() == nil || w.lacking == nil { // else what failed did so for that
			w.lacking = err
		}
		return false, nil
	}
	// An answer is that of a process which ran before it and after it: so of
	// this one only at the next look.
	if w.good.IsZero() {
		w.good = asked
		return false, nil
	}
	return asked.Sub(w.good) >= w.want.Stable, nil
}

// note keeps what a look saw, and fails if the unit has ended for good.
func (w *watch) note(state State) error {
	if !state.SameProcess(w.previous) {
		w.good = time.Time{}
	}
	w.count(state)
	if w.since.IsZero() && !state.Started.Equal(w.before.Started) {
		w.since = state.Started
	}
	w.previous = state
	return w.over()
}

// count counts what the manager has started since: as it says itself, and, as not
// all do, by the processes that were seen.
func (w *watch) count(state State) {
	if state.Restarts >= w.previous.Restarts {
		w.restarts += state.Restarts - w.previous.Restarts
	} else {
		w.restarts += state.Restarts // somebody started it anew
	}
	if state.MainPID == 0 || state.SameProcess(w.before) || state.SameProcess(w.process) {
		return
	}
	if w.process.MainPID != 0 {
		w.others++
	}
	w.process = state
}

// over says why waiting is of no use any more.
func (w *watch) over() error {
	restarts := max(w.restarts, w.others)
	switch s := w.previous; {
	case s.Unusable(w.service.Name) != nil:
		return s.Unusable(w.service.Name)
	case s.Ended() && s.Active == "inactive" && !s.Conditions:
		return errors.New("a Condition in the unit is not met, so the unit was not started")
	case s.Ended() && w.since.IsZero():
		return errors.New("it was not started")
	case s.Ended():
		return errors.New("it exited and was not restarted")
	case restarts >= w.want.Restarts:
		return fmt.Errorf("it keeps exiting: restarted %d times", restarts)
	}
	return nil
}

// healthy says what a unit lacks to be healthy now.
func (w *watch) healthy(ctx context.Context, s State) error {
	switch {
	case s.MainPID == 0:
		return errors.New("no process is running")
	case s.SameProcess(w.before):
		return fmt.Errorf("the old process %d is still running", s.MainPID)
	}
	if w.want.Health != "" {
		if err := ask(ctx, w.want.Health); err != nil {
			return fmt.Errorf("%s: %w", w.want.Health, err)
		}
	}
	if !s.Runs() {
		return fmt.Errorf("the unit is %s", s)
	}
	return nil
}
