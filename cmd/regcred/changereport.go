// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/regcred/regcred/internal/install"
	"github.com/regcred/regcred/internal/terminal"
)

// changeReport is the result of "install".
type changeReport struct {
	Outcome    string     `json:"outcome"` // "installed", "unchanged", "planned", "refused" or "failed"
	Generation int        `json:"generation,omitempty"`
	Previous   int        `json:"previous,omitempty"`
	Restart    []string   `json:"restart"`             // why the kubelet has to be restarted
	Restarted  bool       `json:"restarted,omitempty"` // if it failed: the kubelet was restarted for nothing
	Warnings   []string   `json:"warnings"`
	Changes    []diffJSON `json:"changes"`
	Instead    string     `json:"instead,omitempty"` // what a system that undoes changes wants in their place, with all that the configuration has in args and env
}

type diffJSON struct {
	Name string `json:"name"`
	Diff string `json:"diff"`
}

func newChangeReport(p *install.Plan, dryRun bool, err error) *changeReport {
	r := &changeReport{Outcome: "installed", Generation: p.To.Number, Previous: p.To.Previous, Restart: orEmpty(p.Restart), Warnings: orEmpty(p.Warnings), Changes: []diffJSON{}}
	switch {
	case err != nil:
		r.Outcome, r.Generation = "failed", 0
	case dryRun:
		r.Outcome = "planned"
	case p.Nothing && len(p.Restart) == 0:
		r.Outcome, r.Generation = "unchanged", p.From.Number
	}
	_, r.Restarted = errors.AsType[*install.RestartedError](err)
	for _, d := range p.Diffs {
		r.Changes = append(r.Changes, diffJSON{d.Name, d.Text})
	}
	return r
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
	case "unchanged":
		t.Line(terminal.OK, fmt.Sprintf("generation %d has all this already; nothing was changed", r.Generation))
	case "planned":
		for _, why := range r.Restart {
			t.Line(terminal.Info, "the kubelet has to be restarted: "+why)
		}
		if len(r.Restart) == 0 {
			t.Line(terminal.Info, "the kubelet need not be restarted")
		}
		t.Line(terminal.OK, "nothing was changed (--dry-run)")
	}
}
