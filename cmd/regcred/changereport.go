// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/regcred/regcred/internal/install"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/shown"
	"github.com/regcred/regcred/internal/terminal"
)

// newChange returns the report of an install.
func newChange(p *install.Plan, dryRun bool, err error) *report.Change {
	r := emptyChange(report.ChangeInstalled)
	r.Generation, r.Previous, r.Restart, r.Warnings = p.To.Number, p.To.Previous, orEmpty(p.Restart), orEmpty(p.Warnings)
	switch {
	case err != nil:
		failChange(r, err)
	case dryRun:
		r.Outcome, r.Generation = report.ChangePlanned, 0
	case p.Nothing && len(p.Restart) == 0:
		r.Outcome, r.Generation = report.ChangeUnchanged, p.From.Number
	case p.Nothing: // restarted the kubelet without creating a generation
		r.Outcome, r.Generation, r.Previous = report.ChangeRepaired, p.From.Number, p.From.Previous
	case p.Reactivate && p.To.Number == p.From.Number:
		r.Outcome = report.ChangeRepaired
	case p.Reactivate:
		r.Outcome = report.ChangeRolledBack
	}
	if p.Reactivate {
		r.Previous = p.From.Number
	}
	for _, d := range p.Diffs {
		r.Changes = append(r.Changes, report.FileChange{Name: d.Name, Diff: d.Text})
	}
	return r
}

// emptyChange returns a report with empty lists, which install prints and rollback omits.
func emptyChange(outcome report.ChangeOutcome) *report.Change {
	return &report.Change{Outcome: outcome, Restart: []string{}, Warnings: []string{}, Changes: []report.FileChange{}}
}

// failChange marks r as failed.
func failChange(r *report.Change, err error) {
	r.Outcome, r.Generation, r.Error = report.ChangeFailed, 0, shown.Line(err.Error())
	_, r.Restarted = errors.AsType[*install.RestartedError](err)
	if e, ok := errors.AsType[*node.Error](changeError(err)); ok {
		r.Hint = shown.Line(e.Hint)
	}
	if e, ok := errors.AsType[*install.OwnerError](err); ok {
		r.Outcome, r.Owner = report.ChangeOwned, e.Owner
	}
}

func orEmpty[T any](list []T) []T { return append([]T{}, list...) }

func renderInstall(t *terminal.Text, r *report.Change, p *install.Plan) {
	for _, c := range r.Changes {
		t.Quote("", strings.TrimSuffix(c.Diff, "\n"))
	}
	if len(r.Changes) > 0 {
		t.Blank()
	}
	switch r.Outcome {
	case report.ChangeInstalled:
		t.Line(terminal.OK, fmt.Sprintf("generation %d is current", r.Generation))
	case report.ChangeRolledBack:
		t.Line(terminal.OK, fmt.Sprintf("reactivated generation %d, which already has the requested content", r.Generation))
	case report.ChangeRepaired:
		t.Line(terminal.OK, fmt.Sprintf("generation %d is current and has been repaired", r.Generation))
	case report.ChangeUnchanged:
		t.Line(terminal.OK, fmt.Sprintf("generation %d is already up to date; nothing was changed", r.Generation))
	case report.ChangePlanned:
		for _, why := range r.Restart {
			t.Line(terminal.Info, "the kubelet must be restarted: "+why)
		}
		if len(r.Restart) == 0 {
			t.Line(terminal.Info, "no kubelet restart is needed")
		}
		if p.Reactivate {
			t.Line(terminal.Info, fmt.Sprintf("generation %d is already up to date; no new generation would be created", p.To.Number))
		}
		t.Line(terminal.OK, "nothing was changed (--dry-run)")
	}
}
