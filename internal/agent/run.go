// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package agent runs in one of the chart's pods (deploy/chart) on each node. It
// installs what the chart specifies, checks the node regularly, and reports the node's
// state in a readiness probe, in its log and as metrics.
//
// The agent does not change the node itself. The node's systemd runs "regcred install",
// "status" and "uninstall" (package hostrun). So killing a pod does not interrupt a
// change, and the pod only needs access to systemd.
package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/runstats"
)

// Agent manages one node. Call Run only once.
type Agent struct {
	Options
	Host        Host
	PrintStatus func(line []byte) error // prints a status, one line of JSON, to standard output
	Log         func(text string)       // prints a message to standard error

	saved          savedState
	lastSavedState savedState    // last state that was saved
	desiredState   string        // last desired state that was read
	sharedChecksum string        // checksum of the last configuration
	installed      int           // the generation that this chart installed; 0 if unknown
	isSettled      bool          // the node is known to be in the desired state
	settledAs      Status        // phase and reason of a settled node that is no longer checked
	retry          retrySchedule // schedule after a failure
	repairs        retrySchedule // schedule after a repair
	failedChecks   int           // consecutive checks that failed
	logged         bool          // a message was printed after the last status

	lastLine    []byte // last printed status, without its time
	lastPrinted time.Time

	mu           sync.Mutex // guards the fields below, which metrics read
	status       Status
	counts       *runstats.Counts
	turnDeadline time.Time // when the next turn must have ended; the agent is unhealthy after that
}

// These are the desired states of a node.
const (
	statePresent = "present"
	stateAbsent  = "absent"
)

// statusPrintInterval is the interval at which an unchanged status is printed again.
const statusPrintInterval = 10 * time.Minute

// Run manages the node until ctx ends, which is not an error. A change that is running
// on the node at that time continues.
func (a *Agent) Run(ctx context.Context) error {
	if err := a.initialize(ctx); err != nil {
		return err
	}
	for {
		begun := time.Now()
		a.runTurn(ctx)
		if ctx.Err() != nil {
			return nil
		}
		a.publishStatus(0)
		if !a.waitForNextTurn(ctx, a.nextPause(begun)) {
			return nil
		}
	}
}

// statePollInterval is the interval at which the desired state is read.
const statePollInterval = 2 * time.Second

// waitForNextTurn waits until the next turn is due or the desired state changes. It returns
// false if ctx has ended.
func (a *Agent) waitForNextTurn(ctx context.Context, pause time.Duration) bool {
	due := time.NewTimer(pause)
	defer due.Stop()
	state := time.NewTicker(statePollInterval)
	defer state.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-due.C:
			return true
		case <-state.C:
			if want, err := a.readState(ctx); err == nil && want != a.desiredState {
				return true
			}
		}
	}
}

// initialize loads the saved state and publishes the first status.
func (a *Agent) initialize(ctx context.Context) (err error) {
	if err := makeDir(a.WorkDir); err != nil {
		return err
	}
	if a.saved, err = loadSavedState(ctx, a.WorkDir); err != nil {
		a.logf("%v", err)
	}
	a.desiredState = a.saved.DesiredState
	a.updateStatus(func(s *Status) {
		*s = Status{SchemaVersion: statusVersion, Node: a.Node, Owner: a.Owner, Revision: a.Revision, Phase: PhaseStarting}
	})
	a.publishStatus(0)
	return nil
}

// nextPause returns the time until the next turn. Turns start one interval apart, or earlier
// if a retry is due.
func (a *Agent) nextPause(begun time.Time) time.Duration {
	next := begun.Add(a.interval())
	if at := a.retry.nextTime; at.After(time.Now()) && at.Before(next) {
		next = at
	}
	return max(time.Until(next), time.Second)
}

// runTurn checks the node once, and makes the changes that are due.
func (a *Agent) runTurn(ctx context.Context) {
	want, err := a.readState(ctx)
	if err != nil {
		a.setPhase(PhaseFailed, err.Error())
		return
	}
	if want != a.desiredState {
		if a.desiredState != "" {
			a.saved.resetFailures()
		}
		a.desiredState, a.saved.DesiredState = want, want
		a.isSettled, a.retry = false, retrySchedule{}
	}
	s, err := loadSharedFiles(&a.Options)
	switch w := (agentTurn{a, s}); {
	case want == stateAbsent: // even if the configuration is invalid
		w.uninstallOwn(ctx)
	case err != nil:
		a.setPhase(PhaseFailed, err.Error())
	case a.Install.DryRun:
		a.resetIfChanged(s.checksum())
		w.reportPlan(ctx)
	default:
		a.resetIfChanged(s.checksum())
		w.maintainNode(ctx)
	}
}

// resetIfChanged makes the agent install again, without waiting for a retry, if the
// configuration has changed.
func (a *Agent) resetIfChanged(sum string) {
	if a.sharedChecksum != "" && a.sharedChecksum != sum {
		a.isSettled, a.retry = false, retrySchedule{}
	}
	a.sharedChecksum = sum
}

// readState reads the desired state from the file. If it returns an error, the agent must not
// change the node.
func (a *Agent) readState(ctx context.Context) (string, error) {
	data, err := regularfile.Read(ctx, a.StateFile, 1<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("nothing was changed: the file %s, which must contain %s or %s, does not exist: mount the chart's state ConfigMap with the key %q", a.StateFile, statePresent, stateAbsent, filepath.Base(a.StateFile))
	}
	if err != nil {
		return "", fmt.Errorf("read the desired state: %w; nothing was changed", err)
	}
	switch state := string(bytes.TrimSpace(data)); state {
	case statePresent, stateAbsent:
		return state, nil
	default:
		return "", fmt.Errorf("nothing was changed: the file %s from the chart's state ConfigMap contains %q, but must contain %s or %s", a.StateFile, shortenText(state, 40), statePresent, stateAbsent)
	}
}

// updateStatus changes the status with f, and copies the counters and the last error from the
// saved state.
func (a *Agent) updateStatus(f func(*Status)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f(&a.status)
	a.status.Applies, a.status.Failures, a.status.Repairs = a.saved.Applies, a.saved.Failures, a.saved.Repairs
	a.status.LastApply, a.status.LastError = a.saved.LastApply, a.saved.LastError
}

// markSettled sets the phase of a node that needs no further change.
func (a *Agent) markSettled(p Phase, reason string) {
	a.isSettled, a.retry = true, retrySchedule{}
	a.settledAs = Status{Phase: p, Reason: reason}
	a.setPhase(p, reason)
}

// setPhase sets the phase and its reason.
func (a *Agent) setPhase(p Phase, reason string) {
	a.updateStatus(func(s *Status) { s.Phase, s.Reason = p, reason })
}

// publishStatus writes the status to the file. It prints the status if it has changed or was
// last printed long ago. If publishStatus is not called again in time, the agent is
// unhealthy. more extends this time.
func (a *Agent) publishStatus(more time.Duration) {
	now := time.Now() // keeps the monotonic clock reading
	a.mu.Lock()
	a.turnDeadline = now.Add(3*a.interval() + statusWaitTimeout + more)
	a.status.Time = now.UTC().Truncate(time.Second)
	s, until := a.status, a.turnDeadline
	a.mu.Unlock()
	a.saveState()
	line := s.encodeLine()
	file := statusFile{s, until.UTC().Truncate(time.Second)}
	file.shortenTexts()
	if err := writeStateFile(filepath.Join(a.WorkDir, statusFileName), file); err != nil {
		a.logf("%v", err)
	}
	s.Time = time.Time{}
	if timeless := s.encodeLine(); a.logged || !bytes.Equal(timeless, a.lastLine) || now.Sub(a.lastPrinted) >= statusPrintInterval {
		a.lastLine, a.lastPrinted, a.logged = timeless, now, false
		if err := a.PrintStatus(line); err != nil {
			a.logf("%v", err)
		}
	}
}

// saveState saves the state if it has changed.
func (a *Agent) saveState() {
	if a.saved == a.lastSavedState {
		return
	}
	if err := writeStateFile(filepath.Join(a.WorkDir, savedStateFileName), a.saved); err != nil {
		a.logf("%v", err)
		return
	}
	a.lastSavedState = a.saved
}

// logf prints a message. The status must be printed again after a message, because the last
// line of the log must be a status.
func (a *Agent) logf(format string, args ...any) {
	a.logged = true
	if a.Log != nil {
		a.Log(strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}

// retrySchedule holds the time of the next try, and the phase to report until then.
type retrySchedule struct {
	wait     time.Duration
	nextTime time.Time // zero: immediately

	phase  Phase
	reason string
}

const (
	minRetryWait = 30 * time.Second
	maxRetryWait = 10 * time.Minute
)

// scheduleNext schedules the next try. It doubles the wait time each time, and subtracts up
// to a quarter, so that the nodes of a cluster do not all retry at the same time.
func (r *retrySchedule) scheduleNext() {
	r.wait = min(max(2*r.wait, minRetryWait), maxRetryWait)
	r.nextTime = time.Now().Add(r.wait - rand.N(r.wait/4))
}

// isDue reports whether the next try is due.
func (r *retrySchedule) isDue() bool { return !time.Now().Before(r.nextTime) }
