// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/install"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
)

// installFlags holds the flags of "regcred install".
type installFlags struct {
	*nodeChangeFlags
	plugins    []string
	dispatcher string
	reserve    []string
	anyImage   bool
	maxStale   time.Duration
	keep       int
	dryRun     bool
	reapplied  bool
	owner      string
	hideValues bool
}

func (a *app) installCmd() *cobra.Command {
	i := &installFlags{}
	cmd := &cobra.Command{
		Use:   "install [CONFIG]",
		Short: "Install credential providers on this node",
		Long: `Install credential providers on this node as its next generation. A generation
consists of CONFIG (a file or directory in the kubelet's format) and the plugins
that it names. The kubelet is configured once to run
regcred-credential-provider, which runs the current generation's plugins. Later
changes need no kubelet restart if the kubelet's entries already cover the new
patterns and tokenAttributes. Otherwise, the command lists what is not covered,
changes nothing, and asks for --restart.

Before any change, CONFIG is validated for this node's kubelet, and each new
plugin is checked and test-run. Changes to the node's files are shown before
they are made; with --dry-run, they are not made. After a change, a restarted
kubelet must become healthy and the --probe image must be pulled; otherwise
everything is rolled back.

CONFIG defaults to the current generation's configuration. On a node without a
generation, CONFIG defaults to /etc/regcred/credential-providers.yaml, with the
plugins in /etc/regcred/bin.`,
		Example: `  sudo regcred install providers.yaml --plugin ./ecr-credential-provider --dry-run
  sudo regcred install providers.yaml --plugin ./ecr-credential-provider --restart
  sudo regcred install --plugin ./ecr-credential-provider
  sudo regcred install providers.yaml --root /mnt/image`,
		Args: optionalArgs("CONFIG"),
	}
	i.nodeChangeFlags = addChangeFlags(cmd, "text", "json")
	f := cmd.Flags()
	f.StringArrayVar(&i.plugins, "plugin", nil, "executable `file` for the provider of the same name; may be repeated. Other executables are taken from --bin-dir and the current generation")
	f.StringVar(&i.dispatcher, "dispatcher", "", "executable `file` of regcred-credential-provider (default: the one next to regcred)")
	f.BoolVar(&i.dryRun, "dry-run", false, "show what would change without changing anything")
	addNodeTargetFlags(cmd, i.nodeChangeFlags)
	addRestartFlags(cmd, i.nodeChangeFlags, true)
	f.StringArrayVar(&i.reserve, "reserve", nil, "additional `pattern` for the kubelet's entries, so that a provider for this pattern can be added later without a kubelet restart; may be repeated; \"\" clears the list")
	f.BoolVar(&i.anyImage, "any-image", false, "make the kubelet's provider entries match every image, so that new providers never need a kubelet restart; one plugin process is started for each image pulled")
	f.DurationVar(&i.maxStale, "max-stale", generation.DefaultMaxStaleness, "maximum `time` that the kubelet can cache a response and thus keep using a credential that was removed from the node")
	f.IntVar(&i.keep, "keep", 5, "`number` of generations to keep for rollback")
	f.BoolVar(&i.reapplied, "reapplied", false, "install even if this node's operating system reverts the change at boot; for nodes that run this command at each boot")
	f.StringVar(&i.owner, "owner", "", "`NAMESPACE/RELEASE` of the Helm release that owns this installation; another owner's installation is not replaced")
	f.BoolVar(&i.hideValues, "hide-values", false, "do not print the values of args and env when the command shows a change to make manually")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		w, err := a.desiredState(cmd, i, args)
		if err != nil {
			return err
		}
		return a.install(cmd.Context(), i, w)
	}
	return cmd
}

// desiredState returns the state that the flags request.
func (a *app) desiredState(cmd *cobra.Command, i *installFlags, args []string) (install.DesiredState, error) {
	w := install.DesiredState{Plugins: i.plugins, BinDir: a.binDir.value, Dispatcher: i.dispatcher, SkipExec: i.root != "", Reapplied: i.reapplied, Owner: i.owner}
	if err := checkOwner(i.owner); err != nil {
		return w, err
	}
	switch {
	case len(args) == 1 && a.config.isSetByFlag():
		return w, usageError("omit one of them", "CONFIG and %s are mutually exclusive", a.config.source)
	case len(args) == 1:
		w.Config = args[0]
	default:
		w.Config = a.config.value
	}
	if w.Dispatcher == "" {
		w.Dispatcher = nextToProgram(generation.DispatcherName)
	}
	if w.Dispatcher == "" {
		return w, usageError("use --dispatcher to set the path of "+generation.DispatcherName+", which ships with regcred", "there is no %s next to regcred", generation.DispatcherName)
	}
	if i.keep < 1 {
		return w, usageError("", "--keep is %d; it must be 1 or more", i.keep)
	}
	if cmd.Flags().Changed("max-stale") {
		if i.maxStale <= 0 {
			return w, usageError("", "--max-stale is %v; it must be greater than 0", i.maxStale)
		}
		w.MaxStale = i.maxStale
	}
	if cmd.Flags().Changed("reserve") {
		w.Reserve = slices.DeleteFunc(append([]string{}, i.reserve...), func(p string) bool { return p == "" })
	}
	if cmd.Flags().Changed("any-image") {
		w.AnyImage = &i.anyImage
	}
	return w, nil
}

func (a *app) install(ctx context.Context, i *installFlags, w install.DesiredState) error {
	in, err := a.newInstaller(ctx, i.nodeChangeFlags)
	if err != nil {
		return err
	}
	in.Keep = i.keep
	in.UseDefaultConfig(&w)
	if w.Config != "" {
		if w.Config, err = filepath.Abs(w.Config); err != nil {
			return err
		}
	}
	var plan *install.Plan
	if i.dryRun {
		plan, err = in.Plan(ctx, w)
	} else {
		plan, err = in.Install(ctx, w, install.Options{Restart: i.restart})
	}
	if plan != nil {
		for _, text := range plan.Warnings {
			a.Warn("%s", text)
		}
		r := newChangeReport(plan, i.dryRun, err)
		if printErr := a.printResult(i.output, r, func(t *terminal.Text) { renderInstall(t, r, plan) }); printErr != nil {
			return errors.Join(err, printErr)
		}
	}
	if refused, ok := errors.AsType[*install.UnsupportedNodeError](err); ok {
		return a.explainRefusal(i, in.Setup, w, refused)
	}
	if err != nil {
		a.printKubeletLog(err)
		if plan == nil && i.output.value == "json" {
			r := emptyChangeReport(report.ChangeFailed)
			markFailed(r, err)
			err = errors.Join(err, a.WriteJSON(r))
		}
	}
	return withChangeHint(err)
}

// explainRefusal prints how to change the configuration manually on a node that regcred does not
// support.
func (a *app) explainRefusal(i *installFlags, s *node.Setup, w install.DesiredState, refused *install.UnsupportedNodeError) error {
	manual, err := install.NewManualConfig(w.Config, i.hideValues)
	if err != nil {
		return refused
	}
	instead, err := s.ManualInstructions(manual)
	if err != nil {
		return err
	}
	if i.output.value == "json" {
		r := emptyChangeReport(report.ChangeRejected)
		r.Error, r.ManualInstructions = refused.Error(), instead
		if s.Refusal.Reapplied {
			r.Hint = reapplyHint
		}
		err = a.WriteJSON(r)
	} else {
		err = a.WriteRaw([]byte(instead))
	}
	if err != nil {
		return err
	}
	hint := "the manual change is printed above, including the values of args and env"
	if i.hideValues {
		hint = "the manual change is printed above, without the values of args and env (--hide-values)"
	}
	if s.Refusal.Reapplied {
		hint += "; or " + reapplyHint
	}
	return withHint(refused, hint)
}

const reapplyHint = "--reapplied, if something runs regcred install at each boot"
