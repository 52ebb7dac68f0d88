// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
	"time"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/internal/agent"
)

const agentWork = "/work"

func (a *app) agentReadyCmd() *cobra.Command {
	work := agentWork
	cmd := &cobra.Command{
		Use:   "ready",
		Short: "Check whether this pod's node matches the chart",
		Long: `Print one line with the node's state as reported by "regcred agent run". Exit
with code 1 if the node does not match the chart, or if the agent has not
checked it recently. This command is the readiness probe, and the kubelet
records its output in an Event.`,
		Example: "  regcred agent ready",
		Args:    exactly(),
	}
	cmd.Flags().StringVar(&work, "work", work, "`directory` that is passed as --work to regcred agent run")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ready, line := agent.Ready(cmd.Context(), work, time.Now())
		err := a.WriteRaw([]byte(line + "\n"))
		if !ready {
			err = cmp.Or(err, exit(exitFailed))
		}
		return err
	}
	return cmd
}
