// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import "github.com/spf13/cobra"

func agentCmd(subcommands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "What the pods of the chart run",
		Long: `agent has the commands that the chart's pods run: they give each node what the
chart says, look whether it stays so, and take it off again.`,
	}
	group(cmd)
	cmd.AddCommand(subcommands...)
	return cmd
}
