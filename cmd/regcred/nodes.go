// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/internal/fleet"
)

// nodesFlags holds the flags of "regcred nodes".
type nodesFlags struct {
	kube      kubeFlags
	namespace string
	all       bool
	selector  string
	output    *choice
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
			return atMost()(cmd, args)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&n.namespace, "namespace", "n", "", "`namespace` of the chart's pods")
	f.BoolVarP(&n.all, "all-namespaces", "A", false, "list pods in all namespaces, and fail if that is not allowed")
	f.StringVarP(&n.selector, "selector", "l", fleet.Selector, "`labels` of the chart's pods and DaemonSets")
	n.output = addOutputFlag(cmd, "text", "json")
	n.kube.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.nodes(cmd.Context(), n) }
	return cmd
}

// nodes prints the state of the cluster's nodes.
func (a *app) nodes(ctx context.Context, n *nodesFlags) error {
	client, namespace, err := a.fleet(ctx, n.kube)
	if err != nil {
		return err
	}
	q := fleet.Query{Namespace: n.namespace, Selector: n.selector}
	if n.namespace == "" && !n.all {
		q.Fallback = namespace
	}
	bar := a.Counter("node %d of %d")
	q.Progress = func(_, total int) { bar.Next(total) }
	seen, err := client.Status(ctx, q)
	bar.Close()
	if err != nil {
		return err
	}
	for _, note := range seen.Notes {
		a.Note("%s", note)
	}
	r := newNodesReport(client.URL(), seen)
	r.onScreen, r.now = a.OnScreen(), a.Now()
	if err := a.print(n.output, r, r.render); err != nil {
		return err
	}
	switch {
	case len(r.Nodes) == 0:
		return &exitError{code: exitEmpty, hint: r.noneHint()}
	case !r.well():
		return exit(exitFailed)
	}
	return nil
}
