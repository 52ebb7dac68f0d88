// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/internal/agent"
)

func (a *app) agentCopyCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "copy FILE... DIR",
		Short: "Copy executables into a directory",
		Long: `Copy executables into an existing directory, each atomically and with mode 0755.
An init container runs this command. The command does not need a shell or any
other files in its image, so it can also copy plugins out of an image that
contains nothing else. Nothing is copied unless every file is a regular file and
a Linux executable.`,
		Example: `  regcred agent copy /bin/regcred /tools
  /tools/regcred agent copy /usr/local/bin/my-credential-provider /plugins`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return fmt.Errorf("%s: %s is missing", cmd.CommandPath(), []string{"FILE", "DIR"}[len(args)])
			}
			return nil
		},
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		last := len(args) - 1
		return agent.Copy(cmd.Context(), args[:last], args[last])
	}
	return cmd
}
