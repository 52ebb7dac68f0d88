// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/regcred/regcred/internal/hostrun"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/report"
)

// maxTries is how often a change is begun that comes to no end of its own, or to no
// answer: a node that goes down meanwhile, a systemd that ends it, a disk that is full.
const maxTries = 3

// goal tells one change of the node from another.
func (w work) goal() string {
	if w.wanted == absent {
		return absent
	}
	return w.sum
}

// once makes a change of the node that may restart its kubelet. One that was begun
// before, by a container of this pod that was ended meanwhile, has gone on without it,
// and is not made again if it came to an end: its answer is this one's. What restarted
// the kubelet in vain is not tried again by this pod, and that is written down before
// anything else is done.
func (w work) once(ctx context.Context, c command) (*changeResponse, error) {
	answer, err := w.resume(ctx, c)
	if answer == nil && err == nil {
		answer, err = w.try(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	w.memory.Begun, w.memory.Tries = "", 0
	if answer.Restarted {
		w.spend(answer.reason())
	}
	w.keepMemory()
	return answer, nil
}

// try makes a change, which is written down before. The answer of an earlier one goes
// before that: a container that is ended in between is not to leave it as this one's.
func (w work) try(ctx context.Context, c command) (*changeResponse, error) {
	if err := os.Remove(filepath.Join(w.Work, answerName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("nothing was started: %w", err)
	}
	if w.memory.Begun != w.goal() {
		w.memory.Begun, w.memory.Tries = w.goal(), 0
	}
	w.memory.Tries++
	w.keepMemory()
	answer, err := w.make(ctx, c)
	if err != nil && ctx.Err() == nil && !mayHaveRun(err) {
		w.memory.Begun, w.memory.Tries = "", 0
	}
	return answer, err
}

// mayHaveRun reports whether a change that ended with an error may have done something
// before.
func mayHaveRun(err error) bool {
	_, overdue := errors.AsType[*overdueError](err)
	_, killed := errors.AsType[*hostrun.KilledError](err)
	_, lost := errors.AsType[*hostrun.LostError](err)
	_, begun := errors.AsType[*hostrun.BegunError](err)
	_, unclear := errors.AsType[*unclearError](err)
	return overdue || killed || lost || begun || unclear
}

// resume waits for a change that was begun before, if one was, and returns its answer;
// nil if there is none, so that it is to be made.
func (w work) resume(ctx context.Context, c command) (*changeResponse, error) {
	if w.memory.Begun == "" || w.memory.Begun != w.goal() {
		return nil, nil
	}
	w.publish(w.Install.within())
	if _, err := w.lookWithin(ctx, w.Install.within()); err != nil { // it comes after what is under way
		return nil, err
	}
	data, err := regularfile.Read(ctx, filepath.Join(w.Work, answerName), maxAnswer)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // as good as none, or it would be in the way for ever
		w.say("read the result of regcred %s: %v", c.args[0], err)
	}
	if answer := decodeLeft(c.args[0], data, c.good...); answer != nil {
		return answer, nil
	}
	if w.memory.Tries >= maxTries {
		return &changeResponse{Change: report.Change{Outcome: report.ChangeFailed, Restarted: true, Error: fmt.Sprintf(
			"regcred %s was started %d times on the node but never returned a result: see the unit's journal (journalctl -u %s)", c.args[0], w.memory.Tries, UnitName)}}, nil
	}
	return nil, nil
}

// spend has what is wanted not tried again by this pod, also if its container is
// started anew.
func (w work) spend(why string) {
	w.memory.Spent, w.memory.Why = w.goal(), short(w.words(why), maxReason)
	w.keepMemory()
}

func (w work) spent() bool { return w.memory.Spent != "" && w.memory.Spent == w.goal() }

// inVain says why what is wanted is not tried.
func (w work) inVain() string {
	return "this pod will not retry, to avoid further kubelet restarts: " + w.memory.Why
}
