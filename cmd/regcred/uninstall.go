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
		Long: `uninstall takes everything off this node that install put there: a file that
nobody else has changed is byte for byte what it was before; one that was
changed loses only what is regcred's, and that is said. Directories that were
made are removed.

A kubelet that has entries of regcred in memory has to be restarted, for which
--restart is needed: it would run what is not there any more.`,
		Example: `  sudo regcred uninstall --restart
  sudo regcred uninstall --root /mnt/image`,
		Args: atMost(),
	}
	c := addChangeFlags(cmd, "text", "json")
	addRestartFlags(cmd, c)
	var owner string
	addOwnerFlag(cmd, &owner, "`NAMESPACE/RELEASE` of the chart whose generation it may be; what belongs to another, or to none, stays. Without it all goes, whose it may be")
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
