// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

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

const statusVersion = 1

// Agent looks after one node. It is made once and run once.
type Agent struct {
	Options
	Host  Host
	Print func(line []byte) error // a status, as one line of JSON, to standard output
	Say   func(text string)       // talk, to standard error

	memory    memory
	kept      memory // as it is in the file
	wanted    string // the state that was read last
	sum       string // of what was handed over last
	installed int    // the generation that was; 0 if that is not known
	settled   bool   // what is wanted is so, as far as is known
	rest      Status // phase and reason of a node that is settled and not looked at any more
	retry     retry  // of what failed
	mends     retry  // of what was mended, and may be spoilt again and again
	missed    int    // looks in a row that came to nothing
	talked    bool   // since a line was printed

	printed     []byte // the last line, without its time
	lastPrinted time.Time

	mu     sync.Mutex // for the following, which metrics read
	status Status
	counts *tally.Counts
	until  time.Time // when the next turn will have ended
}

// The states that the chart may want.
const (
	present = "present"
	absent  = "absent"
)

// printEvery is after how long a line is printed of which nothing has changed.
const printEvery = 10 * time.Minute

// Run works until ctx ends, which is no error. Whatever is under way on the node then
// goes on there.
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

// stateEvery is how often it is read what state is wanted, which asks nothing of the
// node.
const stateEvery = 2 * time.Second

// wait waits until the next turn is due, or another state is wanted. It reports false
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

// start says that there is an agent, and what it remembers.
func (a *Agent) start(ctx context.Context) (err error) {
	if err := makeDir(a.Work); err != nil {
		return err
	}
	if a.memory, err = remember(ctx, a.Work); err != nil {
		a.say("%v", err)
	}
	a.wanted = a.memory.Wanted
	a.change(func(s *Status) {
		*s = Status{SchemaVersion: statusVersion, Node: a.Node, Owner: a.Owner, Revision: a.Revision, Phase: Starting}
	})
	a.publish(0)
	return nil
}

// pause is how long the next turn is away: an interval from the beginning of this
// one, or less if something is to be tried again.
func (a *Agent) pause(begun time.Time) time.Duration {
	next := begun.Add(a.interval())
	if at := a.retry.at; at.After(time.Now()) && at.Before(next) {
		next = at
	}
	return max(time.Until(next), time.Second)
}

// turn does what is to be done now.
func (a *Agent) turn(ctx context.Context) {
	want, err := a.readState(ctx)
	if err != nil {
		a.stand(Failed, err.Error())
		return
	}
	if want != a.wanted {
		if a.wanted != "" { // it is asked for anew
			a.memory.forget()
		}
		a.wanted, a.memory.Wanted = want, want
		a.settled, a.retry = false, retry{}
	}
	s, err := loadStage(&a.Options)
	switch w := (work{a, s}); {
	case want == absent: // whatever the configuration is
		w.remove(ctx)
	case err != nil:
		a.stand(Failed, err.Error())
	case a.Install.DryRun:
		a.noteSum(s.sum())
		w.plan(ctx)
	default:
		a.noteSum(s.sum())
		w.keep(ctx)
	}
}

// noteSum has what is wanted done anew if it is another now.
func (a *Agent) noteSum(sum string) {
	if a.sum != "" && a.sum != sum {
		a.settled, a.retry = false, retry{}
	}
	a.sum = sum
}

// readState reads what is wanted. Nothing is changed on a node of which that is not
// known: a file that is missing says nothing.
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

// change changes the status.
func (a *Agent) change(f func(*Status)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f(&a.status)
	a.status.Applies, a.status.Failures, a.status.Mended = a.memory.Applies, a.memory.Failures, a.memory.Mended
	a.status.LastApply, a.status.LastError = a.memory.LastApply, a.memory.LastError
}

// settle is stand for a node of which nothing more is wanted.
func (a *Agent) settle(p Phase, reason string) {
	a.settled, a.retry = true, retry{}
	a.rest = Status{Phase: p, Reason: reason}
	a.stand(p, reason)
}

// stand is change of the phase and its reason.
func (a *Agent) stand(p Phase, reason string) {
	a.change(func(s *Status) { s.Phase, s.Reason = p, reason })
}

// publish says how the node stands: in the file, and in a line if it has changed or
// is long ago. More is how much longer than usual the next time is away.
func (a *Agent) publish(more time.Duration) {
	now := time.Now() // also by the clock that nobody sets
	a.mu.Lock()
	a.until = now.Add(3*a.interval() + lookWithin + more)
	a.status.Time = now.UTC().Truncate(time.Second)
	s, until := a.status, a.until
	a.mu.Unlock()
	a.keepMemory()
	line := s.line()
	file := filed{s, until.UTC().Truncate(time.Second)}
	file.bound()
	if err := file.put(a.Work); err != nil {
		a.say("%v", err)
	}
	s.Time = time.Time{}
	if timeless := s.line(); a.talked || !bytes.Equal(timeless, a.printed) || now.Sub(a.lastPrinted) >= printEvery {
		a.printed, a.lastPrinted, a.talked = timeless, now, false
		if err := a.Print(line); err != nil {
			a.say("%v", err)
		}
	}
}

// keepMemory writes down what a restart of the container is to know.
func (a *Agent) keepMemory() {
	if a.memory == a.kept {
		return
	}
	if err := a.memory.keep(a.Work); err != nil {
		a.say("%v", err)
		return
	}
	a.kept = a.memory
}

// say says something for people. The last line of a log is to be a status, so that
// one follows.
func (a *Agent) say(format string, args ...any) {
	a.talked = true
	if a.Say != nil {
		a.Say(strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}

// alive reports whether turns come as they should.
func (a *Agent) alive() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.until.IsZero() && time.Now().Before(a.until)
}

// retry is when something is tried again, and how the node stands until then.
type retry struct {
	wait time.Duration
	at   time.Time // zero: at once

	phase  Phase
	reason string
}

const (
	firstRetry = 30 * time.Second
	lastRetry  = 10 * time.Minute
)

// later puts the next try off: for twice as long as the last time, less up to a
// quarter, so that the nodes of a fleet do not try at once.
func (r *retry) later() {
	r.wait = min(max(2*r.wait, firstRetry), lastRetry)
	r.at = time.Now().Add(r.wait - rand.N(r.wait/4))
}

// due reports whether something may be tried.
func (r *retry) due() bool { return !time.Now().Before(r.at) }
