// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package agent runs in a pod of the chart (deploy/chart) on each node. It installs what
// the chart specifies, checks the node regularly, and reports the node's state in a
// readiness probe, in its log and as metrics.
//
// The agent does not change the node itself: the node's systemd runs "regcred install",
// "status" and "uninstall" (package hostrun). So a pod that is killed interrupts no
// change, and needs only access to systemd.
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
	"github.com/regcred/regcred/internal/tally"
)

// Agent manages one node. Run must be called once.
type Agent struct {
	Options
	Host  Host
	Print func(line []byte) error // prints a status, one line of JSON, to standard output
	Say   func(text string)       // prints a message to standard error

	memory       memory
	kept         memory // as saved in the file
	wanted       string // the desired state that was read last
	sum          string // checksum of the files that were shared with the node last
	installed    int    // the generation that this chart installed; 0 if unknown
	settled      bool   // the node is known to be in the desired state
	settledAs    Status // phase and reason of a settled node that is no longer checked
	retry        retry  // after a failure
	repairs      retry  // after a repair
	failedChecks int    // consecutive checks that failed
	logged       bool   // a message was printed after the last status

	printed     []byte // the last line, without its time
	lastPrinted time.Time

	mu     sync.Mutex // guards the fields below, which metrics read
	status Status
	counts *tally.Counts
	until  time.Time // when the next turn will have ended
}

// The desired states.
const (
	present = "present"
	absent  = "absent"
)

// printEvery is how often an unchanged status is printed.
const printEvery = 10 * time.Minute

// Run manages the node until ctx ends, which is not an error. A change that is then
// running on the node continues.
func (a *Agent) Run(ctx context.Context) error {
	if err := a.start(ctx); err != nil {
		return err
	}
	for {
		begun := time.Now()
		a.turn(ctx)
		if ctx.Err() != nil {
			return nil
		}
		a.publish(0)
		if !a.wait(ctx, a.pause(begun)) {
			return nil
		}
	}
}

// stateEvery is how often the desired state is read.
const stateEvery = 2 * time.Second

// wait waits until the next turn is due, or the desired state changes. It returns false
// if ctx has ended.
func (a *Agent) wait(ctx context.Context, pause time.Duration) bool {
	due := time.NewTimer(pause)
	defer due.Stop()
	state := time.NewTicker(stateEvery)
	defer state.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-due.C:
			return true
		case <-state.C:
			if want, err := a.readState(ctx); err == nil && want != a.wanted {
				return true
			}
		}
	}
}

// start reads the memory and publishes the first status.
func (a *Agent) start(ctx context.Context) (err error) {
	if err := makeDir(a.Work); err != nil {
		return err
	}
	if a.memory, err = remember(ctx, a.Work); err != nil {
		a.logf("%v", err)
	}
	a.wanted = a.memory.Wanted
	a.change(func(s *Status) {
		*s = Status{SchemaVersion: statusVersion, Node: a.Node, Owner: a.Owner, Revision: a.Revision, Phase: Starting}
	})
	a.publish(0)
	return nil
}

// pause returns the time until the next turn: an interval from the start of this one, or
// less if a retry is due.
func (a *Agent) pause(begun time.Time) time.Duration {
	next := begun.Add(a.interval())
	if at := a.retry.at; at.After(time.Now()) && at.Before(next) {
		next = at
	}
	return max(time.Until(next), time.Second)
}

// turn does what is due now.
func (a *Agent) turn(ctx context.Context) {
	want, err := a.readState(ctx)
	if err != nil {
		a.setPhase(Failed, err.Error())
		return
	}
	if want != a.wanted {
		if a.wanted != "" {
			a.memory.forget()
		}
		a.wanted, a.memory.Wanted = want, want
		a.settled, a.retry = false, retry{}
	}
	s, err := loadStage(&a.Options)
	switch w := (work{a, s}); {
	case want == absent: // even if the configuration is invalid
		w.remove(ctx)
	case err != nil:
		a.setPhase(Failed, err.Error())
	case a.Install.DryRun:
		a.noteSum(s.sum())
		w.plan(ctx)
	default:
		a.noteSum(s.sum())
		w.maintain(ctx)
	}
}

// noteSum starts again if the configuration has changed.
func (a *Agent) noteSum(sum string) {
	if a.sum != "" && a.sum != sum {
		a.settled, a.retry = false, retry{}
	}
	a.sum = sum
}

// readState reads the desired state. If it is unknown, nothing is changed on the node.
func (a *Agent) readState(ctx context.Context) (string, error) {
	data, err := regularfile.Read(ctx, a.State, 1<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("nothing was changed: the file %s, which must contain %s or %s, does not exist: mount the chart's state ConfigMap with the key %q", a.State, present, absent, filepath.Base(a.State))
	}
	if err != nil {
		return "", fmt.Errorf("read the desired state: %w; nothing was changed", err)
	}
	switch state := string(bytes.TrimSpace(data)); state {
	case present, absent:
		return state, nil
	default:
		return "", fmt.Errorf("nothing was changed: the file %s from the chart's state ConfigMap contains %q, but must contain %s or %s", a.State, short(state, 40), present, absent)
	}
}

// change updates the status.
func (a *Agent) change(f func(*Status)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f(&a.status)
	a.status.Applies, a.status.Failures, a.status.Mended = a.memory.Applies, a.memory.Failures, a.memory.Mended
	a.status.LastApply, a.status.LastError = a.memory.LastApply, a.memory.LastError
}

// settle sets the phase of a node that needs no further change.
func (a *Agent) settle(p Phase, reason string) {
	a.settled, a.retry = true, retry{}
	a.settledAs = Status{Phase: p, Reason: reason}
	a.setPhase(p, reason)
}

// setPhase sets the phase and its reason.
func (a *Agent) setPhase(p Phase, reason string) {
	a.change(func(s *Status) { s.Phase, s.Reason = p, reason })
}

// publish writes the status to the file, and prints it if it has changed or was printed
// long ago. The next call may be late by more.
func (a *Agent) publish(more time.Duration) {
	now := time.Now() // with the monotonic clock
	a.mu.Lock()
	a.until = now.Add(3*a.interval() + lookWithin + more)
	a.status.Time = now.UTC().Truncate(time.Second)
	s, until := a.status, a.until
	a.mu.Unlock()
	a.keepMemory()
	line := s.line()
	file := statusFile{s, until.UTC().Truncate(time.Second)}
	file.bound()
	if err := putOwn(filepath.Join(a.Work, statusName), file); err != nil {
		a.logf("%v", err)
	}
	s.Time = time.Time{}
	if timeless := s.line(); a.logged || !bytes.Equal(timeless, a.printed) || now.Sub(a.lastPrinted) >= printEvery {
		a.printed, a.lastPrinted, a.logged = timeless, now, false
		if err := a.Print(line); err != nil {
			a.logf("%v", err)
		}
	}
}

// keepMemory saves the memory if it has changed.
func (a *Agent) keepMemory() {
	if a.memory == a.kept {
		return
	}
	if err := putOwn(filepath.Join(a.Work, memoryName), a.memory); err != nil {
		a.logf("%v", err)
		return
	}
	a.kept = a.memory
}

// logf prints a message. A status must follow, because the log's last line must be one.
func (a *Agent) logf(format string, args ...any) {
	a.logged = true
	if a.Say != nil {
		a.Say(strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}

// alive reports whether turns are on time.
func (a *Agent) alive() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.until.IsZero() && time.Now().Before(a.until)
}

// retry is when something is retried, and the phase until then.
type retry struct {
	wait time.Duration
	at   time.Time // zero: immediately

	phase  Phase
	reason string
}

const (
	firstRetry = 30 * time.Second
	lastRetry  = 10 * time.Minute
)

// later schedules the next try: after twice the last wait, minus up to a quarter, so that
// the nodes of a cluster do not retry at the same time.
func (r *retry) later() {
	r.wait = min(max(2*r.wait, firstRetry), lastRetry)
	r.at = time.Now().Add(r.wait - rand.N(r.wait/4))
}

// due reports whether the next try is due.
func (r *retry) due() bool { return !time.Now().Before(r.at) }
