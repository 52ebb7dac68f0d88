// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/regcred/regcred/internal/install"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/shown"
	"github.com/regcred/regcred/internal/terminal"
)

// changeReport is the result of "install".
type changeReport struct {
	Outcome    string     `json:"outcome"` // "installed", "rolled back", "mended", "unchanged", "planned", "refused", "owned" or "failed"
	Generation int        `json:"generation,omitempty"`
	Previous   int        `json:"previous,omitempty"`
	Error      string     `json:"error,omitempty"`     // why not, in one line
	Hint       string     `json:"hint,omitempty"`      // what to do about that, in one line
	Owner      string     `json:"owner,omitempty"`     // of what is there, if that is why; absent if a person has put it there
	Restart    []string   `json:"restart"`             // why the kubelet has to be restarted
	Restarted  bool       `json:"restarted,omitempty"` // if it failed: the kubelet was restarted for nothing
	Warnings   []string   `json:"warnings"`
	Changes    []diffJSON `json:"changes"`
	Instead    string     `json:"instead,omitempty"` // what a system that undoes changes wants in their place

	former int // of a plan: the generation that would be current again; 0 if none
}

type diffJSON struct {
	Name string `json:"name"`
	Diff string `json:"diff"`
}

func newChangeReport(p *install.Plan, dryRun bool, err error) *changeReport {
	r := &changeReport{Outcome: "installed", Generation: p.To.Number, Previous: p.To.Previous, Restart: orEmpty(p.Restart), Warnings: orEmpty(p.Warnings), Changes: []diffJSON{}}
	switch {
	case err != nil:
		r.fail(err)
	case dryRun:
		r.Outcome, r.Generation = "planned", 0
		if p.Former {
			r.former = p.To.Number
		}
	case p.Nothing && len(p.Restart) == 0:
		r.Outcome, r.Generation = "unchanged", p.From.Number
	case p.Nothing: // the kubelet was restarted, and no generation made
		r.Outcome, r.Generation, r.Previous = "mended", p.From.Number, p.From.Previous
	case p.Former && p.To.Number == p.From.Number:
		r.Outcome = "mended"
	case p.Former:
		r.Outcome = "rolled back"
	}
	if p.Former {
		r.Previous = p.From.Number
	}
	for _, d := range p.Diffs {
		r.Changes = append(r.Changes, diffJSON{d.Name, d.Text})
	}
	return r
}

// fail makes it the report of what did not work.
func (r *changeReport) fail(err error) {
	r.Outcome, r.Generation, r.Error = "failed", 0, shown.Line(err.Error())
	_, r.Restarted = errors.AsType[*install.RestartedError](err)
	if e, ok := errors.AsType[*node.Error](changeError(err)); ok {
		r.Hint = shown.Line(e.Hint)
	}
	if e, ok := errors.AsType[*install.OwnerError](err); ok {
		r.Outcome, r.Owner = "owned", e.Owner
	}
}

func orEmpty[T any](list []T) []T { return append([]T{}, list...) }

func (r *changeReport) render(t *terminal.Text) {
	for _, c := range r.Changes {
		t.Quote("", strings.TrimSuffix(c.Diff, "\n"))
	}
	if len(r.Changes) > 0 {
		t.Blank()
	}
	switch r.Outcome {
	case "installed":
		t.Line(terminal.OK, fmt.Sprintf("generation %d is current", r.Generation))
	case "rolled back":
		t.Line(terminal.OK, fmt.Sprintf("reactivated generation %d, which already has the requested content", r.Generation))
	case "mended":
		t.Line(terminal.OK, fmt.Sprintf("generation %d is current and has been repaired", r.Generation))
	case "unchanged":
		t.Line(terminal.OK, fmt.Sprintf("generation %d is already up to date; nothing was changed", r.Generation))
	case "planned":
		for _, why := range r.Restart {
			t.Line(terminal.Info, "the kubelet must be restarted: "+why)
		}
		if len(r.Restart) == 0 {
			t.Line(terminal.Info, "no kubelet restart is needed")
		}
		if r.former != 0 {
			t.Line(terminal.Info, fmt.Sprintf("generation %d is already up to date; no new generation would be created", r.former))
		}
		t.Line(terminal.OK, "nothing was changed (--dry-run)")
	}
}
