// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import "github.com/spf13/cobra"

func (a *app) pluginCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugin",
		Short: "Run or test a credential provider plugin",
		Long:  "plugin has the commands that concern one plugin and not a whole configuration.",
	}
	group(cmd)
	cmd.AddCommand(a.pluginRunCmd(), a.pluginTestCmd())
	return cmd
}
