// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/internal/install"
)

func (a *app) uninstallCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Take regcred off this node",
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
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.uninstall(cmd.Context(), c) }
	return cmd
}

func (a *app) uninstall(ctx context.Context, c *changeFlags) error {
	in, err := a.installer(ctx, c)
	if err != nil {
		return err
	}
	r := &rollbackReport{Outcome: "uninstalled", text: "nothing of regcred is left on this node"}
	if !in.Present() {
		r.Outcome, r.text = "unchanged", "nothing of regcred is on this node"
	}
	if err := in.Uninstall(ctx, install.Options{Restart: c.restart}); err != nil {
		a.showLog(err)
		return changeError(err)
	}
	return a.print(c.output, r, r.render)
}
