// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/regcred/regcred/plugin"
	"github.com/spf13/cobra"
)

// app is one run of the program: the world it may touch, and the settings
// that every command shares.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	dir            string // working directory
	root           string // where the node's own paths begin: "/", except in tests
	now            func() time.Time
	width          int // of text; 0 = the terminal's, or unlimited if standard output is none

	config, binDir setting
	timeout        time.Duration
	asKubelet      string // "" = no, "auto", or a process id
	rootDir        string
	noColor        bool
	verbose        bool

	started bool // a command's own code runs: what fails from here on is not usage
}

// commands lists the subcommands; each is in the file of its name.
func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.demoCmd(),
		a.demoPluginCmd(),
		a.getCmd(),
		a.explainCmd(),
		a.validateCmd(),
		a.pullCmd(),
		a.prepullCmd(),
		a.pluginCmd(),
		a.convertCmd(),
		a.rbacCmd(),
		a.doctorCmd(),
		a.versionCmd(),
	}
}

// run parses and executes args and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.rootCmd()
	root.SetArgs(append([]string{}, args...)) // nil would mean os.Args
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	if err := detachedPID(args); err != nil {
		return a.report(ctx, root, err)
	}
	cmd, err := root.ExecuteContextC(ctx)
	return a.report(ctx, cmd, err)
}

// detachedPID refuses "--as-kubelet 42": the 42 would be taken for an image.
func detachedPID(args []string) error {
	i := slices.Index(args, "--as-kubelet") + 1
	if i == 0 || i == len(args) {
		return nil
	}
	if _, err := strconv.ParseUint(args[i], 10, 32); err != nil {
		return nil
	}
	return usageError("write --as-kubelet="+args[i], "--as-kubelet %s: a process id follows a \"=\"", args[i])
}

func (a *app) rootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:   "regcred",
		Short: "Registry credentials, resolved as a Kubernetes node does",
		Long: `regcred finds the credentials for a container image the way a Kubernetes node
does: from the kubelet's credential provider configuration and plugins, the
node's docker config files, and pull secrets. And it says why.`,
		Example: `  regcred explain registry.example/team/app:1.2
  regcred get -o docker-config registry.example/team/app:1.2 > auth.json
  regcred validate /etc/kubernetes/credential-providers`,
		Version:       buildVersion(),
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRun: func(*cobra.Command, []string) {
			a.started = true
		},
	}
	group(root)
	a.addGlobalFlags(root)
	root.AddCommand(a.commands()...)
	root.SetHelpCommand(helpCmd())
	root.SetUsageFunc(usage)
	root.InitDefaultCompletionCmd()
	completion, _, _ := root.Find([]string{"completion"})
	group(completion)
	return root
}

func (a *app) addGlobalFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.SortFlags = false
	a.config.register(f, "image-credential-provider-config", "config",
		"`path` of the credential provider configuration: a file or a directory")
	a.binDir.register(f, "image-credential-provider-bin-dir", "bin-dir",
		"`directory` with the plugins' executables")
	f.StringVar(&a.asKubelet, "as-kubelet", "",
		"take flags, environment and directories from the running kubelet, or from that of process `PID`")
	f.Lookup("as-kubelet").NoOptDefVal = "auto"
	f.StringVar(&a.rootDir, "root-dir", "",
		"the kubelet's root `directory`, where it looks for docker config files (default "+defaultRootDir+")")
	f.DurationVar(&a.timeout, "plugin-timeout", plugin.DefaultTimeout, "the longest `time` that one run of a plugin may take")
	f.BoolVar(&a.noColor, "no-color", false, "no colours (also: NO_COLOR in the environment)")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "say on standard error what happens")
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

// logger is for -v; without it nothing is logged.
func (a *app) logger() *slog.Logger {
	if !a.verbose {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
