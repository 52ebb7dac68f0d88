// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/internal/agent"
	"github.com/regcred/regcred/internal/fleet"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/kube"
)

// agentRemoveFlags holds the flags of "regcred agent remove".
type agentRemoveFlags struct {
	kube         kubeFlags
	opts         fleet.RemoveOptions
	allowMissing bool
}

func (a *app) agentRemoveCmd() *cobra.Command {
	r := &agentRemoveFlags{}
	cmd := &cobra.Command{
		Use:   "remove --namespace NS --state-configmap NAME",
		Short: "Make the chart's pods uninstall regcred from their nodes, and wait until they finish",
		Long: `Set the state in a ConfigMap to "absent" (the pods see the change within about a
minute), and wait until each pod reports that regcred is completely removed from
its node. Helm runs this command before it uninstalls the chart. The command
does not wait for nodes that are deleted while it is running.

After the timeout, each remaining node is listed with the reason and the action
to take. You can run the command again.

The command needs permission to patch the ConfigMap, list pods and get pods/log
in the namespace. With permission to list nodes, it detects deleted and
unreachable nodes sooner.

The exit code is 0 if regcred is removed from every node, and 1 otherwise. With
--allow-missing, missing nodes cause only warnings.`,
		Example: `  regcred agent remove --namespace kube-system --state-configmap regcred-state
  regcred agent remove -n kube-system --state-configmap regcred-state --timeout 10m`,
		Args: func(cmd *cobra.Command, args []string) error {
			missing := func(flag string) error {
				return usageError(helpHint(cmd), "%s: --%s is missing", cmd.CommandPath(), flag)
			}
			switch {
			case r.opts.Namespace == "":
				return missing("namespace")
			case r.opts.ConfigMap == "":
				return missing("state-configmap")
			case r.opts.Timeout <= 0:
				return usageError("", "--timeout is %v; it must be greater than 0", r.opts.Timeout)
			}
			return optionalArgs()(cmd, args)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&r.opts.Namespace, "namespace", "n", "", "`namespace` of the ConfigMap and the pods")
	f.StringVar(&r.opts.ConfigMap, "state-configmap", "", "`name` of the ConfigMap that holds the desired state")
	f.StringVarP(&r.opts.Selector, "selector", "l", fleet.DefaultSelector, "`labels` of the pods")
	f.DurationVar(&r.opts.Timeout, "timeout", 4*time.Minute, "maximum `time` to wait for all nodes; Helm's default for a hook is 5 minutes")
	f.BoolVar(&r.allowMissing, "allow-missing", false, "exit with 0 even if nodes are missing")
	r.kube.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.agentRemove(cmd.Context(), r) }
	return cmd
}

func (a *app) agentRemove(ctx context.Context, r *agentRemoveFlags) error {
	client, _, err := a.newFleetClient(ctx, r.kube)
	if err != nil {
		return err
	}
	r.opts.OnChange = a.reportNodeState
	r.opts.OnMessage = func(text string) { a.Note("%s", text) }
	done, err := client.Remove(ctx, r.opts)
	if err != nil {
		return removeError(err, r.opts)
	}
	t := a.NewText()
	t.Quote("", removalText(done))
	if err := t.FlushTo(a.Stdout); err != nil {
		return err
	}
	return a.reportMissingNodes(done.NotRemoved, r.allowMissing)
}

// reportNodeState reports the new state of a node on standard error.
func (a *app) reportNodeState(n fleet.Node, removed, all int) {
	text := string(n.State)
	if n.Reason != "" && n.State != fleet.State(agent.PhaseRemoved) {
		text += ": " + n.Reason
	}
	a.Note("%s: %s (%d of %s removed)", n.Name, text, removed, terminal.FormatCount(all, "node"))
}

func removalText(done *fleet.Removal) string {
	var parts []string
	for _, p := range []struct {
		nodes  int
		format string
	}{{len(done.Removed), "regcred is removed from %s"}, {len(done.Deleted), "%s deleted meanwhile"}, {len(done.NotRemoved), "%s missing"}} {
		if p.nodes > 0 {
			parts = append(parts, fmt.Sprintf(p.format, terminal.FormatCount(p.nodes, "node")))
		}
	}
	if len(parts) == 0 {
		return "the chart has no pods: nothing was removed from any node\n"
	}
	return strings.Join(parts, ", ") + "\n"
}

// regcredPathHint is a hint that explains where to find regcred on a node.
const regcredPathHint = "to uninstall regcred from a node manually, use /bin/regcred from the pods' image, or regcred from the release archive (see docs/fleet.md)"

// reportMissingNodes reports for each node that was not processed why, and how to fix it.
func (a *app) reportMissingNodes(missing []fleet.Node, allowed bool) error {
	var errs []error
	for _, n := range missing {
		if allowed {
			a.Warn("%s: %s", n.Name, n.NotRemovedReason())
			continue
		}
		errs = append(errs, withHint(fmt.Errorf("%s: %s", n.Name, n.NotRemovedReason()), regcredPathHint))
	}
	if allowed && len(missing) > 0 {
		a.Hint(regcredPathHint)
	}
	return errors.Join(errs...)
}

// removeError adds a hint about the hook's Role to a permission error.
func removeError(err error, o fleet.RemoveOptions) error {
	e, ok := errors.AsType[*kube.Error](err)
	if !ok || e.Code != http.StatusForbidden {
		return err
	}
	what := e.Resource
	if e.Verb == "patch" {
		what += " " + o.ConfigMap
	}
	return withHint(err, fmt.Sprintf("allow this service account to %s %s in namespace %s; in total, the account needs permission to patch configmaps %s, list pods and get pods/log",
		e.Verb, what, o.Namespace, o.ConfigMap))
}
