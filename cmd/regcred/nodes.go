// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/regcred/regcred/internal/agent"
	"github.com/regcred/regcred/internal/fleet"
	"github.com/regcred/regcred/internal/terminal"
)

// nodesFlags holds the flags of "regcred nodes".
type nodesFlags struct {
	kube      kubeFlags
	namespace string
	all       bool
	selector  string
	output    *enumFlag
}

func (a *app) nodesCmd() *cobra.Command {
	n := &nodesFlags{}
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "Show the rollout status of the Helm chart on each node",
		Long: `Show the state that the chart's pods report for their nodes: the current
generation, differences from the installed state, and the last error. The state
is read from the last lines of each pod's log. Nodes that have no running pod,
or whose pod's log cannot be read, are listed with the reason.

This command needs permission to list pods and to get pods/log. With permission
to list daemonsets.apps and nodes, the command also shows rollout progress and
nodes without a pod. All namespaces are searched or, if that is not allowed,
only the kubeconfig context's namespace.

The exit code is 0 if all nodes are in the desired state, 1 if not, and 3 if no
node has an agent.`,
		Example: `  kubectl regcred nodes
  regcred nodes -n kube-system -o json
  regcred nodes -l app.kubernetes.io/instance=regcred`,
		Args: func(cmd *cobra.Command, args []string) error {
			if n.all && n.namespace != "" {
				return usageError("", "--all-namespaces and --namespace are mutually exclusive")
			}
			return optionalArgs()(cmd, args)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&n.namespace, "namespace", "n", "", "`namespace` of the chart's pods")
	f.BoolVarP(&n.all, "all-namespaces", "A", false, "list pods in all namespaces, and fail if that is not allowed")
	f.StringVarP(&n.selector, "selector", "l", fleet.DefaultSelector, "`labels` of the chart's pods and DaemonSets")
	n.output = addOutputFlag(cmd, "text", "json")
	n.kube.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.listNodes(cmd.Context(), n) }
	return cmd
}

// listNodes prints the state of the cluster's nodes.
func (a *app) listNodes(ctx context.Context, n *nodesFlags) error {
	client, namespace, err := a.newFleetClient(ctx, n.kube)
	if err != nil {
		return err
	}
	q := fleet.Query{Namespace: n.namespace, Selector: n.selector}
	if n.namespace == "" && !n.all {
		q.Fallback = namespace
	}
	bar := a.NewCounterProgress("node %d of %d")
	q.Progress = func(_, total int) { bar.Increment(total) }
	seen, err := client.Status(ctx, q)
	bar.Close()
	if err != nil {
		return err
	}
	for _, note := range seen.Notes {
		a.Note("%s", note)
	}
	r := newNodesReport(client.URL(), seen)
	r.isTerminal, r.now = a.StdoutIsTerminal(), a.Now()
	if err := a.printResult(n.output, r, r.render); err != nil {
		return err
	}
	switch {
	case len(r.Nodes) == 0:
		where := "in all namespaces"
		if r.Namespace != "" {
			where = "in namespace " + r.Namespace
		}
		return &exitError{code: exitNoMatch, hint: "the chart has no pods " + where + ": check the cluster (--context), namespace (-n) and labels (-l)"}
	case slices.ContainsFunc(r.Nodes, func(n fleet.Node) bool { return !n.Done }),
		slices.ContainsFunc(r.Rollouts, func(o fleet.Rollout) bool { return o.Progress != fleet.ProgressDone }):
		return exitWithCode(exitFailed)
	}
	return nil
}

// nodesReport is the result of "nodes".
type nodesReport struct {
	APIServer string          `json:"apiServer"`
	Namespace string          `json:"namespace,omitempty"` // searched namespace; empty = all
	Nodes     []fleet.Node    `json:"nodes"`
	Rollouts  []fleet.Rollout `json:"rollouts"`
	Counts    map[string]int  `json:"counts"` // number of nodes by state
	Notes     []string        `json:"notes"`  // what could not be read, and why

	isTerminal bool
	now        time.Time
}

func newNodesReport(server string, f *fleet.Fleet) *nodesReport {
	r := &nodesReport{
		APIServer: server, Namespace: f.Namespace,
		Nodes: nonNilSlice(f.Nodes), Rollouts: nonNilSlice(f.Rollouts), Notes: nonNilSlice(f.Notes), Counts: map[string]int{},
	}
	for _, n := range f.Nodes {
		r.Counts[string(n.State)]++
	}
	return r
}

func (r *nodesReport) render(t *terminal.Text) {
	if len(r.Nodes) == 0 {
		t.MarkedLine(terminal.MarkNoCredential, "no node has an agent")
		return
	}
	if cut := r.renderTable(t); cut {
		r.renderDetails(t)
	}
	if r.isTerminal {
		t.BlankLine()
	}
	t.HangingIndent("", r.summaryText())
}

// renderTable prints a row for each node. cut reports whether a row was shortened.
func (r *nodesReport) renderTable(t *terminal.Text) (cut bool) {
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
		state, age := string(n.State), "-"
		if n.Outdated { // healthy, but with an outdated pod
			state += ", old"
		}
		if !n.Since.IsZero() {
			age = duration.HumanDuration(max(0, r.now.Sub(n.Since)))
		}
		row := []string{n.Name, state, age, nodeGenerationText(n), cmp.Or(n.Kubelet, "-"), nodeDriftText(n), cmp.Or(nodeErrorText(n), "-")}
		if len(owners) > 1 {
			row = slices.Insert(row, 1, cmp.Or(n.Owner, "-"))
		}
		rows, marks = append(rows, row), append(marks, nodeMark(n))
	}
	return t.TruncatedTable(header, rows, slices.Index(header, "STATE"), marks)
}

// nodeMark returns the mark for a node's state.
func nodeMark(n fleet.Node) terminal.Mark {
	switch {
	case n.Done:
		return terminal.MarkOK
	case n.Outdated, n.State == fleet.State(agent.PhaseStarting), n.State == fleet.State(agent.PhaseApplying), n.State == fleet.StateDeleted:
		return terminal.MarkWarning
	}
	return terminal.MarkError
}

// nodeGenerationText returns a node's generation and, if the kubelet uses a different
// one, that generation.
func nodeGenerationText(n fleet.Node) string {
	s := n.Status
	switch {
	case s == nil || s.Generation == 0:
		return "-"
	case s.KubeletHas != 0 && s.KubeletHas != s.Generation:
		return fmt.Sprintf("%d (kubelet %d)", s.Generation, s.KubeletHas)
	}
	return fmt.Sprint(s.Generation)
}

// nodeDriftText returns how many files on a node were changed or repaired since the
// installation.
func nodeDriftText(n fleet.Node) string {
	switch s := n.Status; {
	case s == nil:
		return "-"
	case len(s.Drift) > 0:
		return fmt.Sprint(len(s.Drift))
	case s.Repairs > 0:
		return fmt.Sprintf("0, repaired %d", s.Repairs)
	}
	return "0"
}

// nodeErrorText returns why a node is unhealthy. For other nodes, it returns the last error, unless
// a later apply succeeded.
func nodeErrorText(n fleet.Node) string {
	if n.Reason != "" || n.Status == nil || n.Status.LastError == nil || n.Status.LastError.Time.Before(n.Status.LastApply) {
		return n.Reason
	}
	return n.Status.LastError.Message
}

// renderDetails prints the full reasons for unhealthy nodes, grouped by reason.
func (r *nodesReport) renderDetails(t *terminal.Text) {
	of := map[string][]string{}
	var order []string
	marks := map[string]terminal.Mark{}
	for _, n := range r.Nodes {
		if n.Done || n.Reason == "" {
			continue
		}
		text := string(n.State) + ": " + n.Reason
		if of[text] == nil {
			order = append(order, text)
		}
		of[text], marks[text] = append(of[text], n.Name), nodeMark(n)
	}
	if len(order) > 0 {
		t.BlankLine()
	}
	for i, text := range order {
		if i == 20 {
			t.MarkedLine(terminal.MarkNoCredential, fmt.Sprintf("and %d more: use -o json to see all", len(order)-i))
			break
		}
		t.MarkedLine(marks[text], abbreviateNames(of[text])+": "+text)
	}
}

// abbreviateNames lists the first few names, at most three.
func abbreviateNames(names []string) string {
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
	}
	return strings.Join(names, ", ")
}

// summaryText returns the number of nodes in each state, and the progress of rollouts.
func (r *nodesReport) summaryText() string {
	states := slices.SortedFunc(maps.Keys(r.Counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Counts[b], r.Counts[a]), cmp.Compare(a, b))
	})
	for i, s := range states {
		states[i] = fmt.Sprintf("%d %s", r.Counts[s], s)
	}
	text := terminal.FormatCount(len(r.Nodes), "node") + ": " + strings.Join(states, ", ")
	for _, o := range r.Rollouts {
		name := ""
		if len(r.Rollouts) > 1 {
			name = " of " + o.Namespace + "/" + o.Name
		}
		switch o.Progress {
		case fleet.ProgressStopped:
			text += fmt.Sprintf("; rollout%s stopped at %s", name, abbreviateNames(o.StoppedBy))
		case fleet.ProgressRunning:
			text += fmt.Sprintf("; rollout%s under way", name)
		}
		if o.Outdated > 0 {
			text += fmt.Sprintf(" (%s still old)", terminal.FormatCount(o.Outdated, "node"))
		}
	}
	return text
}
