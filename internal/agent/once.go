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

// maxTries is how often a change is started that returns no result: because the node
// goes down, systemd stops it, or the disk is full.
const maxTries = 3

// goal identifies the desired state of the node.
func (w work) goal() string {
	if w.wanted == absent {
		return absent
	}
	return w.sum
}

// changeOnce makes a change that may restart the kubelet. A change that an earlier container
// of this pod started has continued without it: changeOnce waits for it and returns its
// result. A change that failed after it restarted the kubelet is not retried by this
// pod, which is saved before anything else is done.
func (w work) changeOnce(ctx context.Context, c command) (*changeResponse, error) {
	answer, err := w.resume(ctx, c)
	if answer == nil && err == nil {
		answer, err = w.startChange(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	w.memory.Begun, w.memory.Tries = "", 0
	if answer.Restarted {
		w.giveUp(answer.reason())
	}
	w.keepMemory()
	return answer, nil
}

// startChange makes a change, and saves before that it has. An earlier change's result is
// removed first, so that it is not mistaken for this one's.
func (w work) startChange(ctx context.Context, c command) (*changeResponse, error) {
	if err := os.Remove(filepath.Join(w.Work, resultName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("nothing was started: %w", err)
	}
	if w.memory.Begun != w.goal() {
		w.memory.Begun, w.memory.Tries = w.goal(), 0
	}
	w.memory.Tries++
	w.keepMemory()
	answer, err := w.runChange(ctx, c)
	if err != nil && ctx.Err() == nil && !mayHaveRun(err) {
		w.memory.Begun, w.memory.Tries = "", 0
	}
	return answer, err
}

// mayHaveRun reports whether a change may have done something before the error.
func mayHaveRun(err error) bool {
	_, overdue := errors.AsType[*overdueError](err)
	_, killed := errors.AsType[*hostrun.KilledError](err)
	_, lost := errors.AsType[*hostrun.LostError](err)
	_, begun := errors.AsType[*hostrun.BegunError](err)
	_, unclear := errors.AsType[*unclearError](err)
	return overdue || killed || lost || begun || unclear
}

// resume waits for a change that an earlier container started, and returns its result,
// or nil.
func (w work) resume(ctx context.Context, c command) (*changeResponse, error) {
	if w.memory.Begun == "" || w.memory.Begun != w.goal() {
		return nil, nil
	}
	w.publish(w.Install.within())
	if _, err := w.readStatus(ctx, w.Install.within()); err != nil { // status waits for the change that is running
		return nil, err
	}
	data, err := regularfile.Read(ctx, filepath.Join(w.Work, resultName), maxResult)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // otherwise an unreadable file would block all changes
		w.logf("read the result of regcred %s: %v", c.args[0], err)
	}
	if answer := decodeSaved(c.args[0], data, c.good...); answer != nil {
		return answer, nil
	}
	if w.memory.Tries >= maxTries {
		return &changeResponse{Change: report.Change{Outcome: report.ChangeFailed, Restarted: true, Error: fmt.Sprintf(
			"regcred %s was started %d times on the node but never returned a result: see the unit's journal (journalctl -u %s)", c.args[0], w.memory.Tries, UnitName)}}, nil
	}
	return nil, nil
}

// giveUp saves that this pod does not retry the current goal.
func (w work) giveUp(why string) {
	w.memory.GivenUp, w.memory.GivenUpWhy = w.goal(), short(w.redact(why), maxReason)
	w.keepMemory()
}

func (w work) gaveUp() bool { return w.memory.GivenUp != "" && w.memory.GivenUp == w.goal() }

// gaveUpReason returns why the current goal is not retried.
func (w work) gaveUpReason() string {
	return "this pod will not retry, to avoid further kubelet restarts: " + w.memory.GivenUpWhy
}
