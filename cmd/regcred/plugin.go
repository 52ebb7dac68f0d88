// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import "github.com/spf13/cobra"

func (a *app) pluginCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugin",
		Short: "Run a credential provider plugin by hand",
		Long:  "plugin has the commands that concern one plugin and not a whole configuration.",
	}
	group(cmd)
	cmd.AddCommand(a.pluginRunCmd())
	return cmd
}
