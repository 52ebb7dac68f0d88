// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
)

// addCommands adds the subcommands, in the help text's groups. Each command is in the
// file of the same name.
func (a *app) addCommands(root *cobra.Command) {
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Try", []*cobra.Command{a.demoCmd((*app).run)}},
		{"Diagnose", []*cobra.Command{a.explainCmd(), a.doctorCmd(), a.validateCmd()}},
		{"Get and pull", []*cobra.Command{a.getCmd(), a.pullCmd(), a.prepullCmd(), a.execCmd(), a.helperCmd()}},
		{"Nodes", []*cobra.Command{a.installCmd(), a.statusCmd(), a.rollbackCmd(), a.uninstallCmd(), a.serveCmd()}},
		{"Clusters", []*cobra.Command{a.nodesCmd(), a.secretsCmd(), a.rbacCmd()}},
		{"Plugins", []*cobra.Command{pluginCmd(a.pluginRunCmd(), a.pluginTestCmd(), a.pluginMigrateCmd())}},
		{"Convert and generate", []*cobra.Command{a.convertCmd(), a.schemaCmd()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, cmd := range g.commands {
			cmd.GroupID = g.title
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(a.demoPluginCmd(), a.versionCmd(),
		agentCmd(a.agentRunCmd(), a.agentReadyCmd(), a.agentCopyCmd(), a.agentRemoveCmd()))
}

func pluginCmd(subcommands ...*cobra.Command) *cobra.Command {
	return makeParentCommand(&cobra.Command{
		Use:   "plugin",
		Short: "Run, test or replace a credential provider plugin",
		Long:  "Commands that work on a single plugin rather than a whole configuration.",
	}, subcommands...)
}

// run parses and executes args and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.rootCmd()
	root.SetArgs(append([]string{}, args...)) // nil would mean os.Args
	root.SetIn(a.stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	if err := checkKubeletPIDArg(args); err != nil {
		return a.reportError(ctx, root, err)
	}
	cmd, err := root.ExecuteContextC(ctx)
	return a.reportError(ctx, cmd, err)
}

// checkKubeletPIDArg rejects "--as-kubelet 42", because 42 would be parsed as an image.
func checkKubeletPIDArg(args []string) error {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end] // the arguments after -- belong to another command
	}
	i := slices.Index(args, "--as-kubelet") + 1
	if i == 0 || i == len(args) {
		return nil
	}
	if _, err := strconv.ParseUint(args[i], 10, 32); err != nil {
		return nil
	}
	return usageError("write --as-kubelet="+args[i], "--as-kubelet %s: the process ID must follow \"=\"", args[i])
}

func (a *app) rootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:   "regcred",
		Short: "Resolve registry credentials the way a Kubernetes node does",
		Long: `regcred finds the credentials for a container image the way a Kubernetes node
does: from the kubelet's credential provider configuration and plugins, the
node's docker config files, and pull secrets. It explains each decision.`,
		Example: `  regcred explain registry.example/team/app:1.2
  regcred get -o docker-config registry.example/team/app:1.2 > auth.json
  regcred validate /etc/kubernetes/credential-providers`,
		Version:       buildVersion(),
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: commandName(os.Args[0])},
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := rejectEmptyFlags(cmd.Flags()); err != nil {
				return err
			}
			if a.Quiet && a.verbose {
				return errors.New("--quiet and --verbose are mutually exclusive")
			}
			if a.asKubelet == "" { // --as-kubelet ignores the variables in the caller's environment
				a.config.applyEnvDefault(a.Getenv)
				a.binDir.applyEnvDefault(a.Getenv)
			}
			a.started = true
			return nil
		},
	}
	makeParentCommand(root)
	a.addGlobalFlags(root)
	a.addCommands(root)
	root.SetHelpCommand(helpCmd())
	root.SetUsageFunc(printUsage)
	root.InitDefaultCompletionCmd()
	completion, _, _ := root.Find([]string{"completion"})
	makeParentCommand(completion)
	return root
}

func (a *app) addGlobalFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.SortFlags = false
	a.config.register(f, "image-credential-provider-config", "config", "REGCRED_CONFIG",
		"`path` of the credential provider configuration: a file or a directory")
	a.binDir.register(f, "image-credential-provider-bin-dir", "bin-dir", "REGCRED_BIN_DIR",
		"`directory` that contains the plugin executables")
	f.StringVar(&a.asKubelet, "as-kubelet", "",
		"use the flags, environment and directories of the running kubelet, or of the kubelet with process ID `PID`")
	f.Lookup("as-kubelet").NoOptDefVal = autoKubelet
	f.StringVar(&a.rootDir, "root-dir", "",
		"the kubelet's root `directory`, where it looks for docker config files (default "+node.DefaultRootDir+")")
	f.DurationVar(&a.timeout, "plugin-timeout", protocol.KubeletTimeout, "maximum `time` for each plugin run")
	f.BoolVar(&a.NoColor, "no-color", false, "disable colours (also: NO_COLOR in the environment)")
	f.BoolVarP(&a.Quiet, "quiet", "q", false, "print only errors on stderr: no notes, warnings, hints or progress")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "log each step to stderr")
	for _, dir := range []string{"bin-dir", "image-credential-provider-bin-dir", "root-dir"} {
		_ = root.MarkPersistentFlagDirname(dir)
	}
}

// reportError prints err, if any, and returns the exit code. For joined errors, it
// prints each error with its hint and returns the worst exit code.
func (a *app) reportError(ctx context.Context, cmd *cobra.Command, err error) int {
	code := exitOK
	interrupted := false
	hinted := map[string]bool{"": true}
	var told report.Failure
	printError := func(err error, hint string) {
		a.Error(err)
		for _, e := range terminal.FlattenErrors(err) {
			told.Errors = append(told.Errors, report.ErrorHint{Message: e.Error(), Hint: hint})
		}
	}
	for _, part := range terminal.FlattenErrors(err) {
		partCode, hint, say := a.exitResult(cmd, part)
		code = worseExitCode(code, partCode)
		if a.IsBrokenPipe(part) {
			continue
		}
		if say != nil && ctx.Err() != nil {
			interrupted = true
			continue
		}
		printError(say, hint)
		if !hinted[hint] {
			a.Hint(hint)
			hinted[hint] = true
		}
	}
	if interrupted {
		printError(errors.New("interrupted"), "")
		code = exitFailed
	}
	if len(told.Errors) > 0 && a.printsJSON(cmd) && !a.WroteDocument {
		_ = a.WriteJSON(told) // the errors were also printed on standard error
	}
	return code
}

// printsJSON reports whether a command prints regcred's own JSON, which has a field for errors.
// Such a command prints text by default. Output for another program, such as a manifest, has no
// field for errors.
func (a *app) printsJSON(cmd *cobra.Command) bool {
	if cmd == nil || !a.started {
		return false
	}
	f := cmd.Flags().Lookup("output")
	return f != nil && f.Value.String() == "json" && f.DefValue == "text"
}

// exitResult returns the exit code, the hint and the error to print. say is nil if
// everything has been printed.
func (a *app) exitResult(cmd *cobra.Command, err error) (code int, hint string, say error) {
	if e, ok := err.(*exitError); ok {
		return e.code, e.hint, nil
	}
	if e, ok := errors.AsType[*node.HintError](err); ok {
		if err == error(e) {
			err = e.Err // unwrap e, but keep the message of an error that wraps e
		}
		if e.Usage {
			return exitUsage, e.Hint, err
		}
		return exitFailed, e.Hint, err
	}
	if !a.started {
		return exitUsage, helpHint(cmd), err
	}
	return exitFailed, "", err
}
