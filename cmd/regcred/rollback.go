// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/internal/install"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
)

func (a *app) rollbackCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollback [N]",
		Short: "Roll back to an earlier generation on this node",
		Long: `Activate generation N, or by default the generation before the current one. The
next pull uses that generation's plugins and configuration. If the kubelet's
entries do not cover the generation, the entries are also changed, and --restart
is required.`,
		Example: `  sudo regcred rollback
  sudo regcred rollback 3 --restart`,
		Args: optionalArgs("N"),
	}
	c := addChangeFlags(cmd, "text", "json")
	addRestartFlags(cmd, c, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		number := 0
		if len(args) == 1 {
			n, err := strconv.Atoi(args[0])
			if err != nil || n < 1 {
				return usageError("regcred status lists them", "%q is not a generation number", args[0])
			}
			number = n
		}
		return a.rollback(cmd.Context(), c, number)
	}
	return cmd
}

func (a *app) rollback(ctx context.Context, c *nodeChangeFlags, number int) error {
	in, err := a.newInstaller(ctx, c)
	if err != nil {
		return err
	}
	before, err := in.Store.Current()
	if err != nil {
		before = 0 // the rollback reports or fixes any error
	}
	to, err := in.Rollback(ctx, number, install.Options{Restart: c.restart})
	if err != nil {
		a.printKubeletLog(err)
		return withChangeHint(err)
	}
	r, text := a.newWarningReport(in, report.ChangeRolledBack), fmt.Sprintf("generation %d is current", to.Number)
	r.Generation = to.Number
	if before == to.Number {
		r.Outcome, text = report.ChangeUnchanged, text+" already"
	}
	if to.Owner != "" {
		a.Note("the generation belongs to Helm release %s, whose pod might undo the rollback; use helm rollback", to.Owner)
	}
	return a.printResult(c.output, r, func(t *terminal.Text) { t.MarkedLine(terminal.MarkOK, text) })
}
