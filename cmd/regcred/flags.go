// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// setting is one value that two flags set: the kubelet's own name and a short
// form. Given differently they are a mistake, not a precedence.
type setting struct {
	value string
	by    string // the flag that set it; "" if none did
}

func (s *setting) register(f *pflag.FlagSet, long, short, usage string) {
	f.Func(short, usage+"; the kubelet's name of this flag, --"+long+", works too", s.set(short))
	f.Func(long, usage, s.set(long))
	f.Lookup(long).Hidden = true // it has been shown with its short form
}

func (s *setting) set(by string) func(string) error {
	return func(v string) error {
		switch {
		case v == "":
			return errors.New("it is empty")
		case s.by != "" && s.by != by && s.value != v:
			return fmt.Errorf("--%s says %q; they are the same setting", s.by, s.value)
		}
		s.value, s.by = v, by
		return nil
	}
}

// choice is a flag with a fixed set of values, the first being the default.
type choice struct {
	value  string
	values []string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return "format" }

func (c *choice) Set(v string) error {
	if !slices.Contains(c.values, v) {
		return fmt.Errorf("it is none of %s", strings.Join(c.values, ", "))
	}
	c.value = v
	return nil
}

// register makes c a flag of cmd whose values a shell completes.
func (c *choice) register(cmd *cobra.Command, name, short, usage string) {
	cmd.Flags().VarP(c, name, short, usage)
	completeFlag(cmd, name, c.values)
}

func completeFlag(cmd *cobra.Command, name string, values []string) {
	// It can only fail for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// addOutputFlag gives cmd -o/--output with the formats it knows, of which the
// first is the default.
func addOutputFlag(cmd *cobra.Command, formats ...string) *choice {
	c := &choice{value: formats[0], values: formats}
	c.register(cmd, "output", "o", "output format: "+strings.Join(formats, " | "))
	return c
}

// exactly demands one argument for each name.
func exactly(names ...string) cobra.PositionalArgs { return arguments(len(names), names) }

func atMost(names ...string) cobra.PositionalArgs { return arguments(0, names) }

func arguments(least int, names []string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch n := len(args); {
		case n < least:
			return fmt.Errorf("%s: %s is missing", cmd.CommandPath(), names[n])
		case n > len(names):
			return fmt.Errorf("%s: unexpected argument %q", cmd.CommandPath(), args[len(names)])
		}
		return nil
	}
}

// objectName is a flag that names an object in a namespace.
type objectName struct{ namespace, name string }

func (n *objectName) given() bool { return n.name != "" }

func (n *objectName) Type() string { return "NAMESPACE/NAME" }

func (n *objectName) String() string {
	if !n.given() {
		return ""
	}
	return n.namespace + "/" + n.name
}

func (n *objectName) Set(v string) error {
	namespace, name, _ := strings.Cut(v, "/")
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return errors.New("want NAMESPACE/NAME")
	}
	n.namespace, n.name = namespace, name
	return nil
}

// given is a flag and its value, empty if it was not given.
type given struct{ flag, value string }

// whichGiven returns those of the flags that were given.
func whichGiven(flags ...given) (names []string) {
	for _, f := range flags {
		if f.value != "" {
			names = append(names, "--"+f.flag)
		}
	}
	return names
}

// oneAtMost refuses flags that exclude each other.
func oneAtMost(flags ...given) error {
	if names := whichGiven(flags...); len(names) > 1 {
		return usageError("", "%s exclude each other", strings.Join(names, " and "))
	}
	return nil
}
