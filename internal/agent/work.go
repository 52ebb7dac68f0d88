// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/hostrun"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/scrub"
)

// work is one turn of an agent.
type work struct {
	*Agent
	stage *stage
}

// maintain makes the node have what the chart specifies: it installs first, then checks the
// node each turn, and installs again if the node differs.
func (w work) maintain(ctx context.Context) {
	if !w.settled {
		w.begin(ctx)
		return
	}
	look, err := w.readStatus(ctx, lookWithin)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		w.noteFailedCheck(err)
	case len(w.differences(look)) > 0:
		w.change(func(s *Status) { s.Drift = w.redactAll(w.differences(look)) })
		w.repair(ctx)
	default:
		w.markInstalled()
	}
}

// begin installs on a node whose state is unknown.
func (w work) begin(ctx context.Context) {
	w.apply(ctx, Failed)
	if p := w.phase(); ctx.Err() == nil && (p == Failed || p == Unsupported) {
		w.publish(0)                         // look may take long if systemd hangs
		_, _ = w.readStatus(ctx, lookWithin) // to update the rest of the status; apply has reported the error
	}
}

// repair installs again, unless it did so recently: if another process keeps changing the
// node, the kubelet must not be restarted each minute.
func (w work) repair(ctx context.Context) {
	if !w.repairs.due() {
		w.setPhase(Drifted, fmt.Sprintf("the node was repaired but differs from the installed state again, because another process keeps changing it; the next repair is at %s", w.repairs.at.UTC().Format(time.RFC3339)))
		return
	}
	drift := w.drift()
	if w.apply(ctx, Drifted); w.phase() == Installed {
		w.repairs.later()
		w.memory.Mended++
		w.setPhase(Installed, "")
		w.logf("mended: %s", strings.Join(firstFew(drift), "; "))
	}
}

// markInstalled records that the node is as it was installed.
func (w work) markInstalled() {
	w.settled, w.retry = true, retry{}
	w.memory.forget()
	if time.Since(w.repairs.at) > lastRetry {
		w.repairs = retry{}
	}
	w.change(func(s *Status) { s.Drift = nil })
	w.setPhase(Installed, "")
}

// maxFailedChecks is the number of failed checks after which a node is failed: systemd is
// unavailable for a moment when it re-executes itself.
const maxFailedChecks = 3

func (w work) noteFailedCheck(err error) {
	w.logf("check the node: %v", err)
	if w.failedChecks++; w.failedChecks >= maxFailedChecks {
		w.recordError(err)
		w.setPhase(Failed, "the node's state is unknown: "+w.redact(err.Error()))
	}
}

// apply installs, unless it has to wait before it retries. If it fails, the phase
// becomes otherwise.
func (w work) apply(ctx context.Context, otherwise Phase) {
	switch {
	case w.gaveUp():
		w.setPhase(otherwise, w.gaveUpReason())
		return
	case !w.retry.due():
		w.setPhase(w.retry.phase, w.retry.reason)
		return
	}
	if err := w.stage.put(ctx); err != nil {
		w.fail(ctx, otherwise, err)
		return
	}
	w.setPhase(Applying, "an install is running")
	answer, err := w.changeOnce(ctx, w.installs())
	switch {
	case ctx.Err() != nil:
	case err != nil:
		w.fail(ctx, otherwise, err)
	case answer.Outcome == report.ChangeRefused:
		w.refused(answer)
	case answer.reason() != "":
		w.fail(ctx, otherwise, errors.New(answer.reason()))
	default:
		w.applied(ctx, answer)
	}
}

// applied checks a node after a successful install.
func (w work) applied(ctx context.Context, answer *changeResponse) {
	if answer.Outcome != report.ChangeUnchanged {
		w.memory.Applies++
		w.memory.LastApply = time.Now().UTC().Truncate(time.Second)
	}
	w.installed = answer.Generation
	look, err := w.readStatus(ctx, lookWithin)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		w.fail(ctx, Failed, fmt.Errorf("installed, but the node's state is unknown: %w", err))
	case len(w.differences(look)) > 0:
		why := "differences remain after the install: " + strings.Join(firstFew(w.differences(look)), "; ")
		w.settled = true
		w.change(func(s *Status) { s.Drift = w.redactAll(w.differences(look)) })
		if len(answer.Restart) > 0 {
			w.giveUp(why)
		}
		w.fail(ctx, Drifted, errors.New(why))
	default:
		w.markInstalled()
	}
}

// differences lists what differs from what this chart installed.
func (w work) differences(a *statusResponse) []string {
	list := a.differences()
	switch current := *a.Current; {
	case current == 0:
	case a.Owner == "":
		list = append(list, fmt.Sprintf("generation %d was installed manually", current))
	case a.Owner != w.Owner:
		list = append(list, fmt.Sprintf("generation %d belongs to release %s", current, a.Owner))
	case w.installed != 0 && current != w.installed:
		list = append(list, fmt.Sprintf("the current generation is %d, but this chart installed generation %d", current, w.installed))
	}
	return list
}

// refused handles a node whose system undoes changes: it logs the manual change, without
// values of args and env.
func (w work) refused(answer *changeResponse) {
	if w.retry.phase != Unsupported {
		w.logf("regcred cannot install on this node's operating system; make the following change instead:\n%s", scrub.Part(answer.Instead, w.secrets(), false, false))
	}
	w.later(Unsupported, w.redact(answer.reason()))
}

// plan reports once what an install would do.
func (w work) plan(ctx context.Context) {
	if _, err := w.readStatus(ctx, lookWithin); err != nil && ctx.Err() == nil && !w.unsupported(err) {
		w.logf("check the node: %v", err)
	}
	if ctx.Err() != nil || w.idle() {
		return
	}
	if err := w.stage.put(ctx); err != nil {
		w.fail(ctx, Failed, err)
		return
	}
	answer, err := w.runChange(ctx, w.installs("--dry-run"))
	switch {
	case ctx.Err() != nil:
	case err != nil:
		w.fail(ctx, Failed, err)
	case answer.Outcome == report.ChangeRefused:
		w.refused(answer)
	case answer.reason() != "":
		w.fail(ctx, Failed, errors.New(answer.reason()))
	default:
		w.settle(Planned, w.redact(planned(answer)))
	}
}

// idle reports whether there is nothing to do now, and keeps the phase.
func (w work) idle() bool {
	switch {
	case w.settled:
		w.setPhase(w.settledAs.Phase, w.settledAs.Reason)
	case !w.retry.due():
		w.setPhase(w.retry.phase, w.retry.reason)
	default:
		return false
	}
	return true
}

// planned returns what would change, without content.
func planned(a *changeResponse) string {
	if len(a.Changes) == 0 && len(a.Restart) == 0 {
		return "no changes needed: the node is up to date"
	}
	var names []string
	for _, c := range a.Changes {
		names = append(names, c.Name)
	}
	text := "would change: " + strings.Join(names, ", ")
	for _, why := range a.Restart {
		text += "; the kubelet would be restarted: " + why
	}
	return text
}

// remove uninstalls what this chart has installed.
func (w work) remove(ctx context.Context) {
	if w.idle() {
		return
	}
	if w.gaveUp() {
		w.setPhase(NotRemoved, w.gaveUpReason())
		return
	}
	if err := w.stage.putRegcred(ctx); err != nil {
		w.fail(ctx, NotRemoved, err)
		return
	}
	if w.Install.DryRun {
		w.wouldRemove(ctx)
		return
	}
	w.setPhase(Applying, "an uninstall is running")
	answer, err := w.changeOnce(ctx, w.uninstalls())
	switch {
	case ctx.Err() != nil:
	case w.unsupported(err):
		w.noSystemd(err)
	case err != nil:
		w.fail(ctx, NotRemoved, err)
	case answer.Outcome == report.ChangeOwned:
		w.removed("this chart has not installed anything on the node; the existing installation is kept: " + w.redact(answer.reason()))
	case answer.reason() != "":
		w.fail(ctx, NotRemoved, errors.New(answer.reason()))
	default:
		w.removed("")
	}
}

// wouldRemove reports in a dry run whether there is something to uninstall.
func (w work) wouldRemove(ctx context.Context) {
	look, err := w.readStatus(ctx, lookWithin)
	switch {
	case ctx.Err() != nil:
	case w.unsupported(err):
		w.noSystemd(err)
	case err != nil:
		w.fail(ctx, NotRemoved, err)
	case *look.Current == 0:
		w.removed("")
	default:
		w.later(NotRemoved, "dry run: the existing installation would be removed")
	}
}

// noSystemd handles a node without systemd, once that is certain.
func (w work) noSystemd(err error) {
	if w.failedChecks++; w.failedChecks <= maxFailedChecks {
		w.later(NotRemoved, err.Error())
		return
	}
	w.removed("nothing was installed: " + err.Error())
}

func (w work) removed(why string) {
	w.memory.forget()
	w.change(func(s *Status) { s.Drift, s.Generation, s.KubeletHas = nil, 0, 0 })
	w.settle(Removed, why)
}

// fail records a failure and schedules a retry.
func (w work) fail(ctx context.Context, p Phase, err error) {
	if ctx.Err() != nil {
		return
	}
	if w.unsupported(err) {
		w.later(Unsupported, err.Error())
		return
	}
	w.memory.Failures++
	w.recordError(err)
	if w.setPhase(p, w.memory.LastError.Message); !w.gaveUp() {
		w.later(p, w.memory.LastError.Message)
	}
}

// later schedules a retry, and keeps this phase until then.
func (w work) later(p Phase, reason string) {
	w.retry.later()
	w.retry.phase, w.retry.reason = p, reason
	w.setPhase(p, reason)
}

// recordError records the last error.
func (w work) recordError(err error) {
	w.memory.LastError = &Error{time.Now().UTC().Truncate(time.Second), short(w.redact(err.Error()), maxReason)}
}

// unsupported reports whether an error means that regcred cannot run on the node. If it
// has run there before, systemd is only unavailable for a moment.
func (w work) unsupported(err error) bool {
	_, ok := errors.AsType[*hostrun.NoSystemdError](err)
	return ok && !w.memory.Reached
}

func (w work) phase() Phase {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status.Phase
}

func (w work) drift() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status.Drift
}
