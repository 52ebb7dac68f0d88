// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func helpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Show the help of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			target, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usageError(helpHint(cmd.Root()), "unknown help topic %q", strings.Join(args, " "))
			}
			target.InitDefaultHelpFlag()
			return target.Help()
		},
	}
}

func helpHint(cmd *cobra.Command) string {
	return fmt.Sprintf("run %q", cmd.CommandPath()+" --help")
}

// usage prints what follows the description in a command's help. Unlike
// cobra's own it keeps to 80 columns, although some flags have long names.
func usage(cmd *cobra.Command) error {
	t := &text{width: defaultWidth}
	line := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		line = cmd.CommandPath() + " COMMAND [flags]"
	}
	t.WriteString("Usage:\n  " + line + "\n")
	if cmd.HasExample() {
		t.WriteString("\nExamples:\n" + cmd.Example + "\n")
	}
	if cmd.HasAvailableSubCommands() {
		t.WriteString("\nCommands:\n")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				fmt.Fprintf(t, "  %-12s", c.Name())
				t.wrap(14, 14, c.Short)
			}
		}
	}
	t.flags("Flags", cmd.LocalNonPersistentFlags())
	t.flags("Flags of every command", cmd.Root().PersistentFlags())
	_, err := io.WriteString(cmd.OutOrStderr(), t.String())
	return err
}

// flags prints each flag on a line and its meaning below.
func (t *text) flags(title string, set *pflag.FlagSet) {
	if !set.HasAvailableFlags() {
		return
	}
	t.WriteString("\n" + title + ":\n")
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		arg, meaning := pflag.UnquoteUsage(f)
		t.WriteString("  " + flagName(f, arg) + "\n        ")
		t.wrap(8, 8, meaning+flagDefault(f))
	})
}

func flagName(f *pflag.Flag, arg string) string {
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	switch {
	case arg == "":
		return name
	case f.NoOptDefVal != "":
		return name + "[=" + arg + "]"
	}
	return name + " " + arg
}

func flagDefault(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "false", "[]":
		return ""
	}
	return " (default " + f.DefValue + ")"
}

// group makes cmd a command that is only there for its subcommands.
func group(cmd *cobra.Command) {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usageError(helpHint(cmd), "%s needs a command: %s", cmd.CommandPath(), strings.Join(names(cmd), ", "))
		}
		hint := helpHint(cmd)
		cmd.SuggestionsMinimumDistance = 2
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = "did you mean " + strings.Join(near, " or ") + "?"
		}
		return usageError(hint, "unknown command %q for %q", args[0], cmd.CommandPath())
	}
}

func names(cmd *cobra.Command) []string {
	var list []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			list = append(list, c.Name())
		}
	}
	return list
}
