// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/internal/install"
)

func (a *app) uninstallCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Uninstall regcred from this node",
		Long: `Remove everything that install put on this node. Files that have not changed
since are restored byte for byte; from files that have changed, only
regcred's part is removed, and they are listed. Directories that install created
are removed.

A kubelet that has loaded regcred's entries must be restarted, because it would
run a plugin that no longer exists. This requires --restart.`,
		Example: `  sudo regcred uninstall --restart
  sudo regcred uninstall --root /mnt/image`,
		Args: atMost(),
	}
	c := addChangeFlags(cmd, "text", "json")
	addRestartFlags(cmd, c)
	var owner string
	addOwnerFlag(cmd, &owner, "only uninstall what the Helm release `NAMESPACE/RELEASE` owns (default uninstall everything)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.uninstall(cmd.Context(), c, owner) }
	return cmd
}

func (a *app) uninstall(ctx context.Context, c *changeFlags, owner string) error {
	if err := checkOwner(owner); err != nil {
		return err
	}
	in, err := a.installer(ctx, c)
	if err != nil {
		return err
	}
	r := &rollbackReport{Outcome: "uninstalled", text: "nothing of regcred is left on this node"}
	if !in.Present() {
		r.Outcome, r.text = "unchanged", "nothing of regcred is on this node"
	}
	if err := in.Uninstall(ctx, install.Options{Restart: c.restart, Owner: owner}); err != nil {
		a.showLog(err)
		if c.output.value == "json" {
			r.fail(err)
			err = errors.Join(err, a.WriteJSON(r))
		}
		return changeError(err)
	}
	return a.print(c.output, r, r.render)
}
