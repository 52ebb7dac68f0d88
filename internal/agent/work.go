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

// agentTurn is one turn of an agent's loop.
type agentTurn struct {
	*Agent
	files *sharedFiles
}

// maintainNode keeps the node in the state that the chart specifies. The first turn installs.
// Later turns check the node, and install again if it differs.
func (w agentTurn) maintainNode(ctx context.Context) {
	if !w.isSettled {
		w.applyConfig(ctx, PhaseFailed)
		if p := w.Status().Phase; ctx.Err() == nil && (p == PhaseFailed || p == PhaseUnsupported) {
			w.publishStatus(0)                          // before readStatus, which may block if systemd hangs
			_, _ = w.readStatus(ctx, statusWaitTimeout) // to update the other fields; applyConfig has reported the error
		}
		return
	}
	look, err := w.readStatus(ctx, statusWaitTimeout)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		w.recordFailedCheck(err)
	case len(w.statusDifferences(look)) > 0:
		w.updateStatus(func(s *Status) { s.Drift = w.redactAll(w.statusDifferences(look)) })
		w.repairNode(ctx)
	default:
		w.markInstalled()
	}
}

// repairNode installs again, unless it did so recently. If another process keeps changing the
// node, repairs must not restart the kubelet every minute.
func (w agentTurn) repairNode(ctx context.Context) {
	if !w.repairs.isDue() {
		w.setPhase(PhaseDrifted, fmt.Sprintf("the node was repaired but differs from the installed state again, because another process keeps changing it; the next repair is at %s", w.repairs.nextTime.UTC().Format(time.RFC3339)))
		return
	}
	drift := w.Status().Drift
	if w.applyConfig(ctx, PhaseDrifted); w.Status().Phase == PhaseInstalled {
		w.repairs.scheduleNext()
		w.saved.Repairs++
		w.setPhase(PhaseInstalled, "")
		w.logf("mended: %s", strings.Join(truncateList(drift), "; "))
	}
}

// markInstalled records that the node is in the installed state.
func (w agentTurn) markInstalled() {
	w.isSettled, w.retry = true, retrySchedule{}
	w.saved.resetFailures()
	if time.Since(w.repairs.nextTime) > maxRetryWait {
		w.repairs = retrySchedule{}
	}
	w.updateStatus(func(s *Status) { s.Drift = nil })
	w.setPhase(PhaseInstalled, "")
}

// maxFailedChecks is the number of failed checks after which the phase becomes failed. One
// failure is not enough, because systemd is briefly unavailable when it re-executes itself.
const maxFailedChecks = 3

func (w agentTurn) recordFailedCheck(err error) {
	w.logf("check the node: %v", err)
	if w.failedChecks++; w.failedChecks >= maxFailedChecks {
		w.recordError(err)
		w.setPhase(PhaseFailed, "the node's state is unknown: "+w.redactOutput(err.Error()))
	}
}

// applyConfig installs, unless it must wait before a retry. If the install fails, it sets the
// phase to otherwise.
func (w agentTurn) applyConfig(ctx context.Context, otherwise Phase) {
	switch {
	case w.gaveUp():
		w.setPhase(otherwise, w.gaveUpReason())
		return
	case !w.retry.isDue():
		w.setPhase(w.retry.phase, w.retry.reason)
		return
	}
	if err := w.files.copyAll(ctx); err != nil {
		w.recordFailure(ctx, otherwise, err)
		return
	}
	w.setPhase(PhaseApplying, "an install is running")
	answer, err := w.changeOnce(ctx, w.installCommand())
	if w.checkInstall(ctx, answer, err, otherwise) {
		w.verifyInstall(ctx, answer)
	}
}

// checkInstall reports whether an install succeeded. If it failed, checkInstall sets the
// phase to otherwise.
func (w agentTurn) checkInstall(ctx context.Context, answer *changeResponse, err error, otherwise Phase) bool {
	switch {
	case ctx.Err() != nil:
	case err != nil:
		w.recordFailure(ctx, otherwise, err)
	case answer.Outcome == report.ChangeRejected:
		w.handleRejectedInstall(answer)
	case answer.failureReason() != "":
		w.recordFailure(ctx, otherwise, errors.New(answer.failureReason()))
	default:
		return true
	}
	return false
}

// verifyInstall checks the node after a successful install.
func (w agentTurn) verifyInstall(ctx context.Context, answer *changeResponse) {
	if answer.Outcome != report.ChangeUnchanged {
		w.saved.Applies++
		w.saved.LastApply = time.Now().UTC().Truncate(time.Second)
	}
	w.installed = answer.Generation
	look, err := w.readStatus(ctx, statusWaitTimeout)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		w.recordFailure(ctx, PhaseFailed, fmt.Errorf("installed, but the node's state is unknown: %w", err))
	case len(w.statusDifferences(look)) > 0:
		why := "differences remain after the install: " + strings.Join(truncateList(w.statusDifferences(look)), "; ")
		w.isSettled = true
		w.updateStatus(func(s *Status) { s.Drift = w.redactAll(w.statusDifferences(look)) })
		if len(answer.Restart) > 0 {
			w.giveUp(why)
		}
		w.recordFailure(ctx, PhaseDrifted, errors.New(why))
	default:
		w.markInstalled()
	}
}

// statusDifferences returns how the node differs from what this chart installed.
func (w agentTurn) statusDifferences(a *statusResponse) []string {
	list := a.listDifferences()
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

// handleRejectedInstall handles a node whose operating system reverts changes. It logs how to make
// the change manually, without the values of args and env.
func (w agentTurn) handleRejectedInstall(answer *changeResponse) {
	if w.retry.phase != PhaseUnsupported {
		w.logf("regcred cannot install on this node's operating system; make the following change instead:\n%s", scrub.RedactPart(answer.ManualInstructions, w.configSecrets(), false, false))
	}
	w.retryLater(PhaseUnsupported, w.redactOutput(answer.failureReason()))
}

// reportPlan reports what an install would change. It does so once per configuration.
func (w agentTurn) reportPlan(ctx context.Context) {
	if _, err := w.readStatus(ctx, statusWaitTimeout); err != nil && ctx.Err() == nil && !w.isUnsupported(err) {
		w.logf("check the node: %v", err)
	}
	if ctx.Err() != nil || w.isIdle() {
		return
	}
	if err := w.files.copyAll(ctx); err != nil {
		w.recordFailure(ctx, PhaseFailed, err)
		return
	}
	answer, err := w.runChangeCommand(ctx, w.installCommand("--dry-run"))
	if w.checkInstall(ctx, answer, err, PhaseFailed) {
		w.markSettled(PhasePlanned, w.redactOutput(planText(answer)))
	}
}

// isIdle reports whether there is nothing to do now. If so, it keeps the last phase.
func (w agentTurn) isIdle() bool {
	switch {
	case w.isSettled:
		w.setPhase(w.settledAs.Phase, w.settledAs.Reason)
	case !w.retry.isDue():
		w.setPhase(w.retry.phase, w.retry.reason)
	default:
		return false
	}
	return true
}

// planText describes what would change, without file contents.
func planText(a *changeResponse) string {
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

// uninstallOwn uninstalls regcred if this chart installed it.
func (w agentTurn) uninstallOwn(ctx context.Context) {
	if w.isIdle() {
		return
	}
	if w.gaveUp() {
		w.setPhase(PhaseNotRemoved, w.gaveUpReason())
		return
	}
	if err := w.files.copyRegcred(ctx); err != nil {
		w.recordFailure(ctx, PhaseNotRemoved, err)
		return
	}
	if w.Install.DryRun {
		w.reportRemovalPlan(ctx)
		return
	}
	w.setPhase(PhaseApplying, "an uninstall is running")
	answer, err := w.changeOnce(ctx, w.uninstallCommand())
	switch {
	case ctx.Err() != nil:
	case w.isUnsupported(err):
		w.handleNoSystemd(err)
	case err != nil:
		w.recordFailure(ctx, PhaseNotRemoved, err)
	case answer.Outcome == report.ChangeOwned:
		w.recordRemoval("this chart has not installed anything on the node; the existing installation is kept: " + w.redactOutput(answer.failureReason()))
	case answer.failureReason() != "":
		w.recordFailure(ctx, PhaseNotRemoved, errors.New(answer.failureReason()))
	default:
		w.recordRemoval("")
	}
}

// reportRemovalPlan reports in a dry run whether an uninstall would remove anything.
func (w agentTurn) reportRemovalPlan(ctx context.Context) {
	look, err := w.readStatus(ctx, statusWaitTimeout)
	switch {
	case ctx.Err() != nil:
	case w.isUnsupported(err):
		w.handleNoSystemd(err)
	case err != nil:
		w.recordFailure(ctx, PhaseNotRemoved, err)
	case *look.Current == 0:
		w.recordRemoval("")
	default:
		w.retryLater(PhaseNotRemoved, "dry run: the existing installation would be removed")
	}
}

// handleNoSystemd handles an uninstall on a node without systemd. After several checks, it is
// certain that nothing was installed.
func (w agentTurn) handleNoSystemd(err error) {
	if w.failedChecks++; w.failedChecks <= maxFailedChecks {
		w.retryLater(PhaseNotRemoved, err.Error())
		return
	}
	w.recordRemoval("nothing was installed: " + err.Error())
}

func (w agentTurn) recordRemoval(why string) {
	w.saved.resetFailures()
	w.updateStatus(func(s *Status) { s.Drift, s.Generation, s.KubeletHas = nil, 0, 0 })
	w.markSettled(PhaseRemoved, why)
}

// recordFailure records a failure and schedules a retry.
func (w agentTurn) recordFailure(ctx context.Context, p Phase, err error) {
	if ctx.Err() != nil {
		return
	}
	if w.isUnsupported(err) {
		w.retryLater(PhaseUnsupported, err.Error())
		return
	}
	w.saved.Failures++
	w.recordError(err)
	if w.setPhase(p, w.saved.LastError.Message); !w.gaveUp() {
		w.retryLater(p, w.saved.LastError.Message)
	}
}

// retryLater schedules a retry, and sets the phase until then.
func (w agentTurn) retryLater(p Phase, reason string) {
	w.retry.scheduleNext()
	w.retry.phase, w.retry.reason = p, reason
	w.setPhase(p, reason)
}

// recordError records the last error.
func (w agentTurn) recordError(err error) {
	w.saved.LastError = &Error{time.Now().UTC().Truncate(time.Second), shortenText(w.redactOutput(err.Error()), maxReasonLength)}
}

// isUnsupported reports whether err means that the node has no systemd. If regcred has
// run on the node before, systemd is only temporarily unavailable.
func (w agentTurn) isUnsupported(err error) bool {
	_, ok := errors.AsType[*hostrun.NoSystemdError](err)
	return ok && !w.saved.HasRunOnNode
}
