// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/scrub"
)

// work is what an agent does in one turn.
type work struct {
	*Agent
	stage *stage
}

// keep sees to it that the node has what the chart says: first it is installed, and
// then looked at, and installed again if it is not as it was.
func (w work) keep(ctx context.Context) {
	if !w.settled {
		w.begin(ctx)
		return
	}
	look, err := w.look(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		w.miss(err)
	case len(w.differences(look)) > 0:
		w.change(func(s *Status) { s.Drift = w.allWords(w.differences(look)) })
		w.mend(ctx)
	default:
		w.clean()
	}
}

// begin installs on a node of which nothing is known.
func (w work) begin(ctx context.Context) {
	w.apply(ctx, Failed)
	if p := w.phase(); ctx.Err() == nil && (p == Failed || p == Unsupported) {
		w.publish(0)       // a look may take long, where systemd hangs
		_, _ = w.look(ctx) // for what is said beside the phase; why that fails is known
	}
}

// mend installs again, if that was not done a moment ago: who spoils it again and
// again is not to have a kubelet restarted each minute.
func (w work) mend(ctx context.Context) {
	if !w.mends.due() {
		w.stand(Drifted, fmt.Sprintf("the node was repaired but differs from the installed state again, because another process keeps changing it; the next repair is at %s", w.mends.at.UTC().Format(time.RFC3339)))
		return
	}
	drift := w.drift()
	if w.apply(ctx, Drifted); w.phase() == Installed {
		w.mends.later()
		w.memory.Mended++
		w.stand(Installed, "")
		w.say("mended: %s", strings.Join(few(drift), "; "))
	}
}

// clean says that the node is as it was installed.
func (w work) clean() {
	w.settled, w.retry = true, retry{}
	w.memory.forget() // it was not in vain, or somebody has mended it
	if time.Since(w.mends.at) > lastRetry {
		w.mends = retry{}
	}
	w.change(func(s *Status) { s.Drift = nil })
	w.stand(Installed, "")
}

// missedLooks is after how many looks that came to nothing a node is not called
// installed any more: systemd is away for a moment when it is made anew.
const missedLooks = 3

func (w work) miss(err error) {
	w.say("check the node: %v", err)
	if w.missed++; w.missed >= missedLooks {
		w.note(err)
		w.stand(Failed, "the node's state is unknown: "+w.words(err.Error()))
	}
}

// apply installs, if it may be tried now. If it does not work the node is in that phase.
func (w work) apply(ctx context.Context, otherwise Phase) {
	switch {
	case w.spent():
		w.stand(otherwise, w.inVain())
		return
	case !w.retry.due():
		w.stand(w.retry.phase, w.retry.reason)
		return
	}
	if err := w.stage.put(ctx); err != nil {
		w.fail(ctx, otherwise, err)
		return
	}
	w.stand(Applying, "an install is running")
	answer, err := w.once(ctx, w.installs())
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

// applied looks at a node after an install that worked.
func (w work) applied(ctx context.Context, answer *changeResponse) {
	if answer.Outcome != report.ChangeUnchanged {
		w.memory.Applies++
		w.memory.LastApply = time.Now().UTC().Truncate(time.Second)
	}
	w.installed = answer.Generation
	look, err := w.look(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		w.fail(ctx, Failed, fmt.Errorf("installed, but the node's state is unknown: %w", err))
	case len(w.differences(look)) > 0:
		why := "differences remain after the install: " + strings.Join(few(w.differences(look)), "; ")
		w.settled = true
		w.change(func(s *Status) { s.Drift = w.allWords(w.differences(look)) })
		if len(answer.Restart) > 0 {
			w.spend(why)
		}
		w.fail(ctx, Drifted, errors.New(why))
	default:
		w.clean()
	}
}

// differences are what is not as this chart installed it.
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

// refused leaves a node alone that does not keep changes, and says in the log what its
// system wants in their place, without values of args and env.
func (w work) refused(answer *changeResponse) {
	if w.retry.phase != Unsupported {
		w.say("regcred cannot install on this node's operating system; make the following change instead:\n%s", scrub.Part(answer.Instead, w.secrets(), false, false))
	}
	w.later(Unsupported, w.words(answer.reason()))
}

// plan says what an install would do, once.
func (w work) plan(ctx context.Context) {
	if _, err := w.look(ctx); err != nil && ctx.Err() == nil && !w.unsupported(err) {
		w.say("check the node: %v", err)
	}
	if ctx.Err() != nil || w.rests() {
		return
	}
	if err := w.stage.put(ctx); err != nil {
		w.fail(ctx, Failed, err)
		return
	}
	answer, err := w.make(ctx, w.installs("--dry-run"))
	switch {
	case ctx.Err() != nil:
	case err != nil:
		w.fail(ctx, Failed, err)
	case answer.Outcome == report.ChangeRefused:
		w.refused(answer)
	case answer.reason() != "":
		w.fail(ctx, Failed, errors.New(answer.reason()))
	default:
		w.settle(Planned, w.words(planned(answer)))
	}
}

// rests reports whether nothing is to be done now, and the node stands as it did.
func (w work) rests() bool {
	switch {
	case w.settled:
		w.stand(w.rest.Phase, w.rest.Reason)
	case !w.retry.due():
		w.stand(w.retry.phase, w.retry.reason)
	default:
		return false
	}
	return true
}

// planned says what would change, without what is in it.
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

// remove takes off what this chart has put on the node.
func (w work) remove(ctx context.Context) {
	if w.rests() {
		return
	}
	if w.spent() {
		w.stand(NotRemoved, w.inVain())
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
	w.stand(Applying, "an uninstall is running")
	answer, err := w.once(ctx, w.uninstalls())
	switch {
	case ctx.Err() != nil:
	case w.unsupported(err):
		w.nothingThere(err)
	case err != nil:
		w.fail(ctx, NotRemoved, err)
	case answer.Outcome == report.ChangeOwned:
		w.removed("this chart has not installed anything on the node; the existing installation is kept: " + w.words(answer.reason()))
	case answer.reason() != "":
		w.fail(ctx, NotRemoved, errors.New(answer.reason()))
	default:
		w.removed("")
	}
}

// wouldRemove says whether a dry run leaves something on the node.
func (w work) wouldRemove(ctx context.Context) {
	look, err := w.look(ctx)
	switch {
	case ctx.Err() != nil:
	case w.unsupported(err):
		w.nothingThere(err)
	case err != nil:
		w.fail(ctx, NotRemoved, err)
	case *look.Current == 0:
		w.removed("")
	default:
		w.later(NotRemoved, "dry run: the existing installation would be removed")
	}
}

// nothingThere says so of a node without systemd, once that is sure.
func (w work) nothingThere(err error) {
	if w.missed++; w.missed <= missedLooks {
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

// fail notes a failure, after which the same is tried again later.
func (w work) fail(ctx context.Context, p Phase, err error) {
	if ctx.Err() != nil {
		return // it failed for that
	}
	if w.unsupported(err) {
		w.later(Unsupported, err.Error())
		return
	}
	w.memory.Failures++
	w.note(err)
	if w.stand(p, w.memory.LastError.Message); !w.spent() {
		w.later(p, w.memory.LastError.Message)
	}
}

// later has the same tried again later, and until then the node stand so.
func (w work) later(p Phase, reason string) {
	w.retry.later()
	w.retry.phase, w.retry.reason = p, reason
	w.stand(p, reason)
}

// note keeps a failure as the last.
func (w work) note(err error) {
	w.memory.LastError = &Error{time.Now().UTC().Truncate(time.Second), short(w.words(err.Error()), maxReason)}
}

// unsupported reports whether an error says that regcred cannot run on the node. Where
// it could once, systemd is away for a moment.
func (w work) unsupported(err error) bool {
	_, ok := errors.AsType[*UnsupportedError](err)
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
