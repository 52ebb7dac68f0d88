// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/regcred/regcred/internal/terminal"
)

func helpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Show help for a command",
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

// helpWidth is the width of help texts, in columns.
const helpWidth = 80

// printUsage prints the part of a command's help after the description. Unlike cobra's
// version, it fits in 80 columns despite long flag names.
func printUsage(cmd *cobra.Command) error {
	t := &terminal.Text{Width: helpWidth}
	line := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		line = cmd.CommandPath() + " COMMAND [flags]"
	}
	t.Quote("", "Usage:\n  "+line)
	if cmd.HasExample() {
		t.Heading("Examples:")
		t.Quote("", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		printCommandsHelp(t, cmd)
	}
	local := cmd.LocalNonPersistentFlags()
	printFlagsHelp(t, "Flags", local, "")
	for _, group := range []string{flagGroupSubject, flagGroupCluster} {
		printFlagsHelp(t, group, local, group)
	}
	if cmd.HasParent() {
		printFlagNames(t, fmt.Sprintf("Global flags (see %s --help):", cmd.Root().CommandPath()), cmd.Root().PersistentFlags())
	} else {
		printFlagsHelp(t, "Global flags", cmd.PersistentFlags(), "")
	}
	return t.FlushTo(cmd.OutOrStderr())
}

// printCommandsHelp lists the subcommands of cmd by group. Subcommands without a group
// come last.
func printCommandsHelp(t *terminal.Text, cmd *cobra.Command) {
	rest := &cobra.Group{Title: "Commands"}
	if len(cmd.Groups()) > 0 {
		rest.Title = "Other commands"
	}
	for _, g := range append(slices.Clone(cmd.Groups()), rest) {
		first := true
		for _, c := range cmd.Commands() {
			if c.GroupID != g.ID || !c.IsAvailableCommand() {
				continue
			}
			if first {
				t.Heading(g.Title + ":")
				first = false
			}
			t.HangingIndent(fmt.Sprintf("  %-12s", c.Name()), c.Short)
		}
	}
}

// Groups of flags that several commands share.
const (
	flagGroupSubject = "Pod and service account"
	flagGroupCluster = "Kubernetes API server"
)

// groupAnnotation is the flag annotation that holds the flag's group. Flags without a group are
// listed under "Flags".
const groupAnnotation = "regcred_group"

func assignFlagGroup(cmd *cobra.Command, group string, names ...string) {
	for _, name := range names {
		f := cmd.Flags().Lookup(name)
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[groupAnnotation] = []string{group}
	}
}

// printFlagNames lists only the names of flags. Another help text describes them.
func printFlagNames(t *terminal.Text, title string, set *pflag.FlagSet) {
	var names []string
	set.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, "--"+f.Name)
		}
	})
	t.Heading(title)
	t.HangingIndent("  ", strings.Join(names, " "))
}

// printFlagsHelp prints each flag of a group on a line, with its description below.
func printFlagsHelp(t *terminal.Text, title string, set *pflag.FlagSet, group string) {
	first := true
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || strings.Join(f.Annotations[groupAnnotation], "") != group {
			return
		}
		if first {
			t.Heading(title + ":")
			first = false
		}
		arg, meaning := pflag.UnquoteUsage(f)
		t.Quote("  ", flagUsageName(f, arg))
		if !strings.Contains(f.Usage, "(default") && !slices.Contains([]string{"", "false", "[]"}, f.DefValue) {
			meaning += " (default " + f.DefValue + ")"
		}
		t.HangingIndent("        ", meaning)
	})
}

func flagUsageName(f *pflag.Flag, arg string) string {
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

// makeParentCommand makes cmd the parent of the subcommands. Without a subcommand, cmd prints its
// help, as git and kubectl do.
func makeParentCommand(cmd *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(subcommands...)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		hint := helpHint(cmd)
		cmd.SuggestionsMinimumDistance = 2
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = "did you mean " + strings.Join(near, " or ") + "?"
		}
		return usageError(hint, "unknown command %q for %q", args[0], cmd.CommandPath())
	}
	return cmd
}
