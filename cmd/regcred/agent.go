// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import "github.com/spf13/cobra"

func agentCmd(subcommands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:    "agent",
		Short:  "Commands that the Helm chart's pods run",
		Hidden: true,
		Long: `Commands that the Helm chart's pods run: they install what the chart configures
on each node, check that it stays installed, and uninstall it again.`,
	}
	group(cmd)
	cmd.AddCommand(subcommands...)
	return cmd
}
