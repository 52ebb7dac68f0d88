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
		Long: `Print in one line the state of the node of "regcred agent run", and exit with 1
if it does not match the chart or if the agent has not checked it for too long.
This is the readiness probe; the kubelet puts its output into an Event.`,
		Example: "  regcred agent ready",
		Args:    exactly(),
	}
	cmd.Flags().StringVar(&work, "work", work, "--work `directory` of regcred agent run")
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
