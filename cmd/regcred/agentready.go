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
		Long: `ready says in one line how the node stands on which "regcred agent run" works,
and ends with code 1 if that is not as the chart says, or if the agent has not
looked for too long. A readiness probe runs it; of what it prints the kubelet
makes an Event.`,
		Example: "  regcred agent ready",
		Args:    exactly(),
	}
	cmd.Flags().StringVar(&work, "work", work, "`directory` of regcred agent run")
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
