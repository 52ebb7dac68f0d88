// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import "github.com/spf13/cobra"

func agentCmd(subcommands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:    "agent",
		Short:  "Commands that the Helm chart's pods run",
		Hidden: true,
		Long: `Commands that the Helm chart's pods run to install the chart's configuration on
each node, keep it installed, and uninstall it.`,
	}
	group(cmd)
	cmd.AddCommand(subcommands...)
	return cmd
}
