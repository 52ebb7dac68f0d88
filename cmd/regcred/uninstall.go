// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/internal/install"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
)

func (a *app) uninstallCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Uninstall regcred from this node",
		Long: `Remove everything that "regcred install" added to this node. Files that have not
changed since installation are restored byte for byte. If a file has changed,
only regcred's part is removed and the file is listed. Directories
that "regcred install" created are removed. An interrupted change is not
finished. If regcred's own records are damaged, the files that it recognizes are
removed.

A kubelet that has loaded regcred's entries must be restarted; otherwise, it
would run a plugin that no longer exists. This requires --restart.

If the kubelet could not start without regcred, for example because no provider
would be left in its configuration, nothing is changed unless you use --force.`,
		Example: `  sudo regcred uninstall --restart
  sudo regcred uninstall --root /mnt/image`,
		Args: optionalArgs(),
	}
	c := addChangeFlags(cmd, "text", "json")
	addRestartFlags(cmd, c, false)
	var owner string
	var force bool
	cmd.Flags().BoolVar(&force, "force", false, "uninstall even if the kubelet would not start afterwards")
	cmd.Flags().StringVar(&owner, "owner", "", "uninstall only what the Helm release `NAMESPACE/RELEASE` owns (default: everything)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.uninstall(cmd.Context(), c, owner, force) }
	return cmd
}

func (a *app) uninstall(ctx context.Context, c *nodeChangeFlags, owner string, force bool) error {
	if err := checkOwner(owner); err != nil {
		return err
	}
	in, err := a.newInstaller(ctx, c)
	if err != nil {
		return err
	}
	outcome, text := report.ChangeUninstalled, "regcred was completely removed from this node"
	if !in.HasState() {
		outcome, text = report.ChangeUnchanged, "regcred is not installed on this node"
	}
	err = in.Uninstall(ctx, install.Options{Restart: c.restart, Force: force, Owner: owner})
	r := a.newWarningReport(in, outcome)
	if err != nil {
		a.printKubeletLog(err)
		if c.output.value == "json" {
			markFailed(r, err)
			err = errors.Join(err, a.WriteJSON(r))
		}
		return withChangeHint(err)
	}
	if r.Left = in.Left; len(r.Left) > 0 {
		text = "regcred was removed from this node; left in place: " + strings.Join(r.Left, ", ")
	}
	return a.printResult(c.output, r, func(t *terminal.Text) { t.MarkedLine(terminal.MarkOK, text) })
}
