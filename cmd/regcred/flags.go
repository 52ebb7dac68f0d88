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

// aliasedFlag is a setting with two flags: the kubelet's flag name and a short form. It is an error
// if both flags are set to different values. An environment variable sets the default.
type aliasedFlag struct {
	value    string
	source   string // source of the value: "--config", "REGCRED_CONFIG"; "" if not set
	variable string // name of the environment variable
}

func (s *aliasedFlag) register(f *pflag.FlagSet, long, short, variable, usage string) {
	s.variable = variable
	f.Func(short, usage+" (default $"+variable+"); also --"+long+", as with the kubelet", s.set(short))
	f.Func(long, usage, s.set(long))
	f.Lookup(long).Hidden = true // the usage of the short form mentions it
}

func (s *aliasedFlag) set(flag string) func(string) error {
	by := "--" + flag
	return func(v string) error {
		switch {
		case v == "":
			return errors.New("must not be empty")
		case s.isSetByFlag() && s.source != by && s.value != v:
			return fmt.Errorf("conflicts with %s=%q, which is the same setting", s.source, s.value)
		}
		s.value, s.source = v, by
		return nil
	}
}

// isSetByFlag reports whether the value comes from a flag instead of the environment.
func (s *aliasedFlag) isSetByFlag() bool { return s.source != "" && s.source != s.variable }

// isRelativePath reports whether the value is a relative path.
func (s *aliasedFlag) isRelativePath() bool { return s.value != "" && !filepath.IsAbs(s.value) }

// applyEnvDefault reads the environment variable if no flag is set.
func (s *aliasedFlag) applyEnvDefault(getenv func(string) string) {
	if v := getenv(s.variable); s.source == "" && v != "" {
		s.value, s.source = v, s.variable
	}
}

// enumFlag is a flag with a fixed set of values. The first is the default.
type enumFlag struct {
	value  string
	values []string
}

func (c *enumFlag) String() string { return c.value }
func (c *enumFlag) Type() string   { return "format" }

func (c *enumFlag) Set(v string) error {
	if !slices.Contains(c.values, v) {
		return fmt.Errorf("must be one of %s", strings.Join(c.values, ", "))
	}
	c.value = v
	return nil
}

// addEnumFlag adds a flag to cmd, with shell completion of its values.
func addEnumFlag(cmd *cobra.Command, name, short, usage, value string, values ...string) *enumFlag {
	c := &enumFlag{value, values}
	cmd.Flags().VarP(c, name, short, usage)
	registerFlagCompletion(cmd, name, values)
	return c
}

// addTargetFlags adds the flags that select a kubelet version and its feature gates.
// something completes the help text "kubelet version …".
func addTargetFlags(cmd *cobra.Command, t *config.Target, something string) {
	t.FeatureGates = map[string]bool{}
	f := cmd.Flags()
	f.StringVar(&t.KubeletVersion, "kubelet-version", config.NewestKubelet, "kubelet `version` "+something+", for example 1.33")
	f.Func("feature-gates", "the kubelet's non-default feature gates, as `A=true,B=false`",
		func(v string) error { return node.ParseFeatureGates(t.FeatureGates, v) })
}

// addKubeletFlags adds the flags that select the kubelet for which the command validates the
// configuration. Without them, it uses the node's kubelet if the newest one rejects the configuration.
func (a *app) addKubeletFlags(cmd *cobra.Command) {
	t := &config.Target{}
	addTargetFlags(cmd, t, "to check the configuration for")
	f := cmd.Flags()
	f.Lookup("kubelet-version").DefValue = "" // the help text would not mention the node's
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if !f.Changed("kubelet-version") && !f.Changed("feature-gates") {
			return nil
		}
		a.target = t
		a.printTargetNotes(*t)
		return checkKubeletVersion(t.KubeletVersion)
	}
}

func registerFlagCompletion(cmd *cobra.Command, name string, values []string) {
	// The call fails only if the flag does not exist.
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// addOutputFlag adds -o/--output to cmd. The first format is the default.
func addOutputFlag(cmd *cobra.Command, formats ...string) *enumFlag {
	return addEnumFlag(cmd, "output", "o", "output format: "+strings.Join(formats, " | "), formats[0], formats...)
}

// requireArgs requires one argument for each name.
func requireArgs(names ...string) cobra.PositionalArgs { return positionalArgs(len(names), names) }

func optionalArgs(names ...string) cobra.PositionalArgs { return positionalArgs(0, names) }

func positionalArgs(least int, names []string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch n := len(args); {
		case n < least:
			return fmt.Errorf("%s: %s is missing", cmd.CommandPath(), names[n])
		case n > len(names):
			return fmt.Errorf("%s: unexpected argument %q", cmd.CommandPath(), excerpt.RedactAddress(args[len(names)]))
		}
		return nil
	}
}

// objectNameFlag is a flag with the name of a namespaced object.
type objectNameFlag struct{ namespace, name string }

func (n *objectNameFlag) isSet() bool { return n.name != "" }

func (n *objectNameFlag) Type() string { return "NAMESPACE/NAME" }

func (n *objectNameFlag) String() string {
	if !n.isSet() {
		return ""
	}
	return n.namespace + "/" + n.name
}

func (n *objectNameFlag) Set(v string) error {
	namespace, name, _ := strings.Cut(v, "/")
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return errors.New("want NAMESPACE/NAME")
	}
	n.namespace, n.name = namespace, name
	return nil
}

// rejectEmptyFlags rejects flags with an empty value, for example from an unset shell
// variable. If such flags were ignored, --as-kubelet=$PID would use the caller's
// environment, and --kubeconfig would use another cluster.
func rejectEmptyFlags(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if err == nil && f.Value.Type() == "string" && f.Value.String() == "" {
			err = fmt.Errorf("--%s must not be empty", f.Name)
		}
	})
	return err
}

// flagValue is a flag and its value. An empty value means that the flag is not set.
type flagValue struct{ flag, value string }

// changedFlagNames returns the names of the flags that are set.
func changedFlagNames(flags ...flagValue) (names []string) {
	for _, f := range flags {
		if f.value != "" {
			names = append(names, "--"+f.flag)
		}
	}
	return names
}

// checkMutuallyExclusive returns an error if more than one of the flags is set.
func checkMutuallyExclusive(flags ...flagValue) error {
	if names := changedFlagNames(flags...); len(names) > 1 {
		return usageError("", "%s are mutually exclusive", strings.Join(names, " and "))
	}
	return nil
}

// rulesFlag is a flag for names of lint rules. It can be repeated and accepts comma-separated
// lists.
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
	registerFlagCompletion(cmd, "rule", report.RuleNames())
	registerFlagCompletion(cmd, "disable-rule", report.RuleNames())
}
