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

// maxTries limits how often a change is started if it returns no result. A result is missing
// if the node goes down, systemd stops the change, or the disk is full.
const maxTries = 3

// goalID identifies the desired state of the node.
func (w agentTurn) goalID() string {
	if w.desiredState == stateAbsent {
		return stateAbsent
	}
	return w.sharedChecksum
}

// changeOnce makes a change that may restart the kubelet. If an earlier container of this pod
// started the change, changeOnce waits for it and returns its result. If the change fails
// after it restarted the kubelet, changeOnce saves that this pod must not retry it.
func (w agentTurn) changeOnce(ctx context.Context, c changeCommand) (*changeResponse, error) {
	answer, err := w.resumeChange(ctx, c)
	if answer == nil && err == nil {
		answer, err = w.startChange(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	w.saved.StartedGoal, w.saved.Tries = "", 0
	if answer.Restarted {
		w.giveUp(answer.failureReason())
	}
	w.saveState()
	return answer, nil
}

// startChange makes a change. It first saves that the change was started, and removes the
// result of an earlier change, so that it is not mistaken for the new result.
func (w agentTurn) startChange(ctx context.Context, c changeCommand) (*changeResponse, error) {
	if err := os.Remove(filepath.Join(w.WorkDir, resultFileName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("nothing was started: %w", err)
	}
	if w.saved.StartedGoal != w.goalID() {
		w.saved.StartedGoal, w.saved.Tries = w.goalID(), 0
	}
	w.saved.Tries++
	w.saveState()
	answer, err := w.runChangeCommand(ctx, c)
	if err != nil && ctx.Err() == nil && !changeMayHaveRun(err) {
		w.saved.StartedGoal, w.saved.Tries = "", 0
	}
	return answer, err
}

// changeMayHaveRun reports whether a change may have had an effect before the error.
func changeMayHaveRun(err error) bool {
	_, overdue := errors.AsType[*timeoutError](err)
	_, killed := errors.AsType[*hostrun.KilledError](err)
	_, lost := errors.AsType[*hostrun.ResultLostError](err)
	_, begun := errors.AsType[*hostrun.UnknownResultError](err)
	_, unclear := errors.AsType[*unreadableResultError](err)
	return overdue || killed || lost || begun || unclear
}

// resumeChange waits for a change that an earlier container started, and returns its result.
// It returns nil if there is no such change or no result.
func (w agentTurn) resumeChange(ctx context.Context, c changeCommand) (*changeResponse, error) {
	if w.saved.StartedGoal == "" || w.saved.StartedGoal != w.goalID() {
		return nil, nil
	}
	w.publishStatus(w.Install.waitTimeout())
	if _, err := w.readStatus(ctx, w.Install.waitTimeout()); err != nil { // status waits for a change in progress
		return nil, err
	}
	data, err := regularfile.Read(ctx, filepath.Join(w.WorkDir, resultFileName), maxOutputSize)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // only log it, so that an unreadable file does not block all changes
		w.logf("read the result of regcred %s: %v", c.args[0], err)
	}
	if answer := decodeSavedChange(c.args[0], data, c.okOutcomes...); answer != nil {
		return answer, nil
	}
	if w.saved.Tries >= maxTries {
		return &changeResponse{Change: report.Change{Outcome: report.ChangeFailed, Restarted: true, Error: fmt.Sprintf(
			"regcred %s was started %d times on the node but never returned a result: see the unit's journal (journalctl -u %s)", c.args[0], w.saved.Tries, UnitName)}}, nil
	}
	return nil, nil
}

// giveUp saves that this pod does not retry the current goal.
func (w agentTurn) giveUp(why string) {
	w.saved.FailedGoal, w.saved.FailedReason = w.goalID(), shortenText(w.redactOutput(why), maxReasonLength)
	w.saveState()
}

func (w agentTurn) gaveUp() bool { return w.saved.FailedGoal != "" && w.saved.FailedGoal == w.goalID() }

// gaveUpReason returns why the current goal is not retried.
func (w agentTurn) gaveUpReason() string {
	return "this pod will not retry, to avoid further kubelet restarts: " + w.saved.FailedReason
}
