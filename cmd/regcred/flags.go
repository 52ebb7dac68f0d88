// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/report"
)

// setting is a value that two flags can set: the kubelet's own name and a short form.
// Different values are an error. An environment variable sets the default.
type setting struct {
	value    string
	by       string // the name of its source: "--config", "REGCRED_CONFIG"; "" if not set
	variable string // name of the environment variable
}

func (s *setting) register(f *pflag.FlagSet, long, short, variable, usage string) {
	s.variable = variable
	f.Func(short, usage+" (default $"+variable+"); also --"+long+", as with the kubelet", s.set(short))
	f.Func(long, usage, s.set(long))
	f.Lookup(long).Hidden = true // listed together with its short form
}

func (s *setting) set(flag string) func(string) error {
	by := "--" + flag
	return func(v string) error {
		switch {
		case v == "":
			return errors.New("must not be empty")
		case s.byFlag() && s.by != by && s.value != v:
			return fmt.Errorf("conflicts with %s=%q, which is the same setting", s.by, s.value)
		}
		s.value, s.by = v, by
		return nil
	}
}

// byFlag reports whether a flag set the value, and not only the environment.
func (s *setting) byFlag() bool { return s.by != "" && s.by != s.variable }

// relative reports whether the value is a relative path.
func (s *setting) relative() bool { return s.value != "" && !filepath.IsAbs(s.value) }

// takeDefault reads the environment variable if no flag is set.
func (s *setting) takeDefault(getenv func(string) string) {
	if v := getenv(s.variable); s.by == "" && v != "" {
		s.value, s.by = v, s.variable
	}
}

// choice is a flag with a fixed set of values. The first is the default.
type choice struct {
	value  string
	values []string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return "format" }

func (c *choice) Set(v string) error {
	if !slices.Contains(c.values, v) {
		return fmt.Errorf("must be one of %s", strings.Join(c.values, ", "))
	}
	c.value = v
	return nil
}

// register adds c to cmd as a flag, with shell completion of its values.
func (c *choice) register(cmd *cobra.Command, name, short, usage string) {
	cmd.Flags().VarP(c, name, short, usage)
	completeFlag(cmd, name, c.values)
}

// gates holds feature gates, in the syntax of the kubelet's --feature-gates.
type gates map[string]bool

func (g gates) String() string         { return "" }
func (g gates) Type() string           { return "gates" }
func (g gates) Set(value string) error { return node.SetGates(g, value) }

// addTarget adds the flags that select a kubelet version. something names what is
// checked for it.
func addTarget(cmd *cobra.Command, t *config.Target, something string) {
	t.FeatureGates = map[string]bool{}
	f := cmd.Flags()
	f.StringVar(&t.KubeletVersion, "kubelet-version", config.NewestKubelet, "kubelet `version` "+something+", for example 1.33")
	f.Var(gates(t.FeatureGates), "feature-gates", "the kubelet's non-default feature gates, as `A=true,B=false`")
}

func completeFlag(cmd *cobra.Command, name string, values []string) {
	// Fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// addOutputFlag adds -o/--output to cmd. The first format is the default.
func addOutputFlag(cmd *cobra.Command, formats ...string) *choice {
	c := &choice{value: formats[0], values: formats}
	c.register(cmd, "output", "o", "output format: "+strings.Join(formats, " | "))
	return c
}

// exactly requires one argument for each name.
func exactly(names ...string) cobra.PositionalArgs { return arguments(len(names), names) }

func atMost(names ...string) cobra.PositionalArgs { return arguments(0, names) }

func arguments(least int, names []string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch n := len(args); {
		case n < least:
			return fmt.Errorf("%s: %s is missing", cmd.CommandPath(), names[n])
		case n > len(names):
			return fmt.Errorf("%s: unexpected argument %q", cmd.CommandPath(), excerpt.Address(args[len(names)]))
		}
		return nil
	}
}

// objectName is a flag with the name of a namespaced object.
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

// noneEmpty rejects flags with an empty value, for example from an unset shell
// variable. If they were ignored, --as-kubelet=$PID would use the caller's environment,
// and --kubeconfig another cluster.
func noneEmpty(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if err == nil && f.Value.Type() == "string" && f.Value.String() == "" {
			err = fmt.Errorf("--%s must not be empty", f.Name)
		}
	})
	return err
}

// given is a flag and its value. An empty value means that the flag is not set.
type given struct{ flag, value string }

// whichGiven returns the names of the flags that are set.
func whichGiven(flags ...given) (names []string) {
	for _, f := range flags {
		if f.value != "" {
			names = append(names, "--"+f.flag)
		}
	}
	return names
}

// oneAtMost returns an error if more than one of the flags is set.
func oneAtMost(flags ...given) error {
	if names := whichGiven(flags...); len(names) > 1 {
		return usageError("", "%s are mutually exclusive", strings.Join(names, " and "))
	}
	return nil
}

// rulesFlag is a flag for names of lint rules: repeatable, with comma-separated lists.
type rulesFlag struct{ list *[]string }

func (r rulesFlag) Type() string   { return "NAME" }
func (r rulesFlag) String() string { return "" }

func (r rulesFlag) Set(v string) error {
	names, err := report.ParseRules(v)
	*r.list = append(*r.list, names...)
	return err
}

// addRuleFlags adds the flags that select lint findings.
func addRuleFlags(cmd *cobra.Command, f *report.Filter) {
	cmd.Flags().Var(rulesFlag{&f.Only}, "rule", "report only findings of this lint rule; may be repeated")
	cmd.Flags().Var(rulesFlag{&f.Disabled}, "disable-rule", "do not report findings of this lint rule; may be repeated")
	completeFlag(cmd, "rule", report.Rules())
	completeFlag(cmd, "disable-rule", report.Rules())
}
