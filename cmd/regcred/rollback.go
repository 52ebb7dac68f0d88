// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/internal/install"
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
		Args: atMost("N"),
	}
	c := addChangeFlags(cmd, "text", "json")
	addRestartFlags(cmd, c)
	addProbeFlag(cmd, c)
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

// rollbackReport is the result of "rollback" and "uninstall".
type rollbackReport struct {
	Outcome    string `json:"outcome"` // "rolled back", "unchanged", "uninstalled"; of an uninstall "owned" or "failed"
	Generation int    `json:"generation,omitempty"`
	Error      string `json:"error,omitempty"`     // why not, in one line
	Hint       string `json:"hint,omitempty"`      // what to do about that
	Owner      string `json:"owner,omitempty"`     // of what is there, if that is why
	Restarted  bool   `json:"restarted,omitempty"` // if an uninstall failed: the kubelet was restarted for nothing
	text       string
}

// fail makes it the report of what did not work.
func (r *rollbackReport) fail(err error) {
	var c changeReport
	c.fail(err)
	r.Outcome, r.Error, r.Hint, r.Owner, r.Restarted = c.Outcome, c.Error, c.Hint, c.Owner, c.Restarted
}

func (r *rollbackReport) render(t *terminal.Text) { t.Line(terminal.OK, r.text) }

func (a *app) rollback(ctx context.Context, c *changeFlags, number int) error {
	in, err := a.installer(ctx, c)
	if err != nil {
		return err
	}
	before, err := in.Store.Current()
	if err != nil {
		before = 0 // what is wrong with it, the rollback says or mends
	}
	to, err := in.Rollback(ctx, number, install.Options{Restart: c.restart})
	if err != nil {
		a.showLog(err)
		return changeError(err)
	}
	r := &rollbackReport{Outcome: "rolled back", Generation: to.Number, text: fmt.Sprintf("generation %d is current", to.Number)}
	if before == to.Number {
		r.Outcome, r.text = "unchanged", r.text+" already"
	}
	if to.Owner != "" {
		a.Note("the generation belongs to Helm release %s, whose pod might undo the rollback; use helm rollback", to.Owner)
	}
	return a.print(c.output, r, r.render)
}
