// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/internal/agent"
)

func agentCmd(subcommands ...*cobra.Command) *cobra.Command {
	return makeParentCommand(&cobra.Command{
		Use:    "agent",
		Short:  "Commands that the Helm chart's pods run",
		Hidden: true,
		Long: `Commands that the Helm chart's pods run to install the chart's configuration on
each node, keep it installed, and uninstall it.`,
	}, subcommands...)
}

func (a *app) agentCopyCmd() *cobra.Command {
	return &cobra.Command{
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
		RunE: func(cmd *cobra.Command, args []string) error {
			last := len(args) - 1
			return agent.CopyExecutables(cmd.Context(), args[:last], args[last])
		},
	}
}

const defaultAgentWorkDir = "/work"

func (a *app) agentReadyCmd() *cobra.Command {
	work := defaultAgentWorkDir
	cmd := &cobra.Command{
		Use:   "ready",
		Short: "Check whether this pod's node matches the chart",
		Long: `Print one line with the node's state as reported by "regcred agent run". Exit
with code 1 if the node does not match the chart, or if the agent has not
checked it recently. This command is the readiness probe, and the kubelet
records its output in an Event.`,
		Example: "  regcred agent ready",
		Args:    requireArgs(),
	}
	cmd.Flags().StringVar(&work, "work", work, "`directory` that is passed as --work to regcred agent run")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ready, line := agent.IsReady(cmd.Context(), work, time.Now())
		err := a.WriteRaw([]byte(line + "\n"))
		if !ready {
			err = cmp.Or(err, exitWithCode(exitFailed))
		}
		return err
	}
	return cmd
}
