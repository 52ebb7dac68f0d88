// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/regcred/regcred/internal/agent"
	"github.com/regcred/regcred/internal/fleet"
	"github.com/regcred/regcred/internal/terminal"
)

// nodesReport is the result of "nodes".
type nodesReport struct {
	APIServer string          `json:"apiServer"`
	Namespace string          `json:"namespace,omitempty"` // searched namespace; empty = all
	Nodes     []fleet.Node    `json:"nodes"`
	Rollouts  []fleet.Rollout `json:"rollouts"`
	Counts    map[string]int  `json:"counts"` // number of nodes by state
	Notes     []string        `json:"notes"`  // what could not be read, and why

	onScreen bool
	now      time.Time
}

func newNodesReport(server string, f *fleet.Fleet) *nodesReport {
	r := &nodesReport{
		APIServer: server, Namespace: f.Namespace,
		Nodes: orEmpty(f.Nodes), Rollouts: orEmpty(f.Rollouts), Notes: orEmpty(f.Notes), Counts: map[string]int{},
	}
	for _, n := range f.Nodes {
		r.Counts[string(n.State)]++
	}
	return r
}

// well reports whether no node needs further work.
func (r *nodesReport) well() bool {
	return !slices.ContainsFunc(r.Nodes, func(n fleet.Node) bool { return !n.Well }) &&
		!slices.ContainsFunc(r.Rollouts, func(o fleet.Rollout) bool { return o.Progress != fleet.Done })
}

func (r *nodesReport) noneHint() string {
	where := "in all namespaces"
	if r.Namespace != "" {
		where = "in namespace " + r.Namespace
	}
	return "the chart has no pods " + where + ": check the cluster (--context), namespace (-n) and labels (-l)"
}

func (r *nodesReport) render(t *terminal.Text) {
	if len(r.Nodes) == 0 {
		t.Line(terminal.None, "no node has an agent")
		return
	}
	if cut := r.table(t); cut {
		r.details(t)
	}
	if r.onScreen {
		t.Blank()
	}
	t.Hang("", r.summary())
}

// table prints a row for each node. cut reports whether a row was shortened.
func (r *nodesReport) table(t *terminal.Text) (cut bool) {
	header := []string{"NODE", "STATE", "SINCE", "GENERATION", "KUBELET", "DRIFT", "LAST ERROR"}
	owners := map[string]bool{}
	for _, n := range r.Nodes {
		owners[n.Owner] = true
	}
	if len(owners) > 1 {
		header = slices.Insert(header, 1, "OWNER")
	}
	var rows [][]string
	var marks []terminal.Mark
	for _, n := range r.Nodes {
		row := []string{n.Name, stateOf(n), r.since(n), generationOf(n), cmp.Or(n.Kubelet, "-"), driftOf(n), cmp.Or(lastErrorOf(n), "-")}
		if len(owners) > 1 {
			row = slices.Insert(row, 1, cmp.Or(n.Owner, "-"))
		}
		rows, marks = append(rows, row), append(marks, markOf(n))
	}
	return t.CutTable(header, rows, slices.Index(header, "STATE"), marks)
}

// markOf returns the mark for a node's state.
func markOf(n fleet.Node) terminal.Mark {
	switch {
	case n.Well:
		return terminal.OK
	case n.Behind, n.State == fleet.State(agent.Starting), n.State == fleet.State(agent.Applying), n.State == fleet.Deleted:
		return terminal.Warning
	}
	return terminal.Error
}

// stateOf returns a node's state, and for a healthy node also that its pod is outdated.
func stateOf(n fleet.Node) string {
	if n.Behind {
		return string(n.State) + ", old"
	}
	return string(n.State)
}

// since returns how long a node has been in its state.
func (r *nodesReport) since(n fleet.Node) string {
	if n.Since.IsZero() {
		return "-"
	}
	return duration.HumanDuration(max(0, r.now.Sub(n.Since)))
}

// generationOf returns a node's generation and, if different, the generation that the
// kubelet uses.
func generationOf(n fleet.Node) string {
	s := n.Status
	switch {
	case s == nil || s.Generation == 0:
		return "-"
	case s.KubeletHas != 0 && s.KubeletHas != s.Generation:
		return fmt.Sprintf("%d (kubelet %d)", s.Generation, s.KubeletHas)
	}
	return fmt.Sprint(s.Generation)
}

// driftOf returns how many files on a node were changed or repaired since the
// installation.
func driftOf(n fleet.Node) string {
	switch s := n.Status; {
	case s == nil:
		return "-"
	case len(s.Drift) > 0:
		return fmt.Sprint(len(s.Drift))
	case s.Mended > 0:
		return fmt.Sprintf("0, repaired %d", s.Mended)
	}
	return "0"
}

// lastErrorOf returns why a node is unhealthy, or its last error since the last apply.
func lastErrorOf(n fleet.Node) string {
	if n.Reason != "" || n.Status == nil || n.Status.LastError == nil || n.Status.LastError.Time.Before(n.Status.LastApply) {
		return n.Reason
	}
	return n.Status.LastError.Message
}

// details prints the full reasons for unhealthy nodes, grouped by reason.
func (r *nodesReport) details(t *terminal.Text) {
	of := map[string][]string{}
	var order []string
	marks := map[string]terminal.Mark{}
	for _, n := range r.Nodes {
		if n.Well || n.Reason == "" {
			continue
		}
		text := string(n.State) + ": " + n.Reason
		if of[text] == nil {
			order = append(order, text)
		}
		of[text], marks[text] = append(of[text], n.Name), markOf(n)
	}
	if len(order) > 0 {
		t.Blank()
	}
	for i, text := range order {
		if i == 20 {
			t.Line(terminal.None, fmt.Sprintf("and %d more: use -o json to see all", len(order)-i))
			break
		}
		t.Line(marks[text], someOf(of[text])+": "+text)
	}
}

// someOf lists at most three names.
func someOf(names []string) string {
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
	}
	return strings.Join(names, ", ")
}

// summary prints the number of nodes by state, and the progress of rollouts.
func (r *nodesReport) summary() string {
	states := slices.SortedFunc(maps.Keys(r.Counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Counts[b], r.Counts[a]), cmp.Compare(a, b))
	})
	for i, s := range states {
		states[i] = fmt.Sprintf("%d %s", r.Counts[s], s)
	}
	text := terminal.Count(len(r.Nodes), "node") + ": " + strings.Join(states, ", ")
	for _, o := range r.Rollouts {
		name := ""
		if len(r.Rollouts) > 1 {
			name = " of " + o.Namespace + "/" + o.Name
		}
		switch o.Progress {
		case fleet.Stopped:
			text += fmt.Sprintf("; rollout%s stopped at %s", name, someOf(o.StoppedBy))
		case fleet.Running:
			text += fmt.Sprintf("; rollout%s under way", name)
		}
		if o.Behind > 0 {
			text += fmt.Sprintf(" (%s still old)", terminal.Count(o.Behind, "node"))
		}
	}
	return text
}
