// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package pluginmain runs the plugins of this repository: it parses flags, handles
// --help, --version and the verbosity, and calls [plugin.Serve].
//
//	func main() {
//		opts := static.Options{}
//		flags := pluginmain.NewFlagSet()
//		flags.StringVar(&opts.PasswordFile, "password-file", "", "`path` of the password")
//		pluginmain.Program{
//			Name: "static-credential-provider", Version: version, Flags: flags,
//			New: func(pluginmain.Input) (plugin.Provider, error) { return static.New(opts) },
//		}.Main()
//	}
package pluginmain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/regcred/regcred/internal/registry"
	"github.com/regcred/regcred/internal/scrub"
	"github.com/regcred/regcred/plugin"
)

// Program describes a plugin's command line.
type Program struct {
	Name    string // the plugin's file name in configurations
	Version string // printed by --version; "" means the version of the main module
	Args    string // positional arguments for the usage line; "" rejects any
	Summary string // one or a few lines for --help
	Example string // for --help, indented by two spaces

	// Flags holds the program's flags. Create it with [NewFlagSet].
	Flags *pflag.FlagSet

	// VersionShorthand is a one-letter shorthand for --version, for compatibility with
	// upstream plugins.
	VersionShorthand string

	// Timeout bounds one run; 0 means 50 seconds.
	Timeout time.Duration

	// New returns the provider. It is called after the flags are parsed. It returns
	// errors about flags, the environment and files that every request needs.
	New func(Input) (plugin.Provider, error)
}

// Input is passed to [Program.New].
type Input struct {
	Args   []string            // positional arguments
	Getenv func(string) string // reads an environment variable
	Logger *slog.Logger        // writes warnings to stderr, and more at higher verbosity; never nil
}

// NewFlagSet returns an empty flag set whose help lists flags in the order they were
// added.
func NewFlagSet() *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.Usage = func() {}
	return flags
}

// AddOtherHostsFlag adds the flag --other-hosts.
func AddOtherHostsFlag(flags *pflag.FlagSet, value *string) {
	flags.TextVar((*registry.OtherHosts)(value), "other-hosts", registry.OtherHostsFail,
		"`fail|empty`: how to respond for hosts that this plugin does not serve; empty returns no credential")
}

// AddMirrorFlags adds the flags --mirror and --mirror-origin.
func AddMirrorFlags(flags *pflag.FlagSet, entries *[]string, origin *string) {
	flags.StringArrayVar(entries, "mirror", nil,
		"`SOURCE=TARGET[/PATH]`: return TARGET's credential for images that begin with SOURCE, because the runtime pulls them from TARGET; repeatable")
	flags.TextVar((*registry.MirrorOrigin)(origin), "mirror-origin", registry.MirrorOrigin(""),
		"`none|trusted`: use none if the runtime never falls back to SOURCE, or trusted if SOURCE is allowed to receive the credential")
}

// AddIgnoredKlogFlags makes flags accept and ignore klog's flags, which existing configurations
// contain. It leaves out --v, which every [Program] has.
func AddIgnoredKlogFlags(flags *pflag.FlagSet) {
	for _, name := range []string{
		"logtostderr", "alsologtostderr", "legacy_stderr_threshold_behavior",
		"add_dir_header", "skip_headers", "skip_log_headers", "one_output",
	} {
		flags.Bool(name, false, "")
		flags.Lookup(name).Hidden = true
	}
	for _, name := range []string{
		"vmodule", "alsologtostderrthreshold", "stderrthreshold", "log_dir", "log_file",
		"log_file_max_size", "log_backtrace_at", "log-flush-frequency",
	} {
		flags.String(name, "", "")
		flags.Lookup(name).Hidden = true
	}
}

// Main runs the program with the process's arguments, streams and environment, then
// exits. SIGTERM and SIGINT cancel the run.
func (p Program) Main() {
	// The stop function is not called, because it would take longer than a small plugin runs.
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	os.Exit(p.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}

// Run runs the program and returns the exit code of [plugin.Serve], or 1 if a flag or
// setting is invalid.
func (p Program) Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string) int {
	verbosityShorthand := "v"
	if p.VersionShorthand == "v" {
		verbosityShorthand = ""
	}
	verbosity := p.Flags.IntP("v", verbosityShorthand, 0, "log `level` for standard error: 2 logs steps, 4 logs details")
	version := p.Flags.BoolP("version", p.VersionShorthand, false, "print the version")
	switch err := p.Flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprint(stdout, p.helpText())
		return 0
	case err != nil:
		return p.printError(stderr, fmt.Errorf("%w; --help lists the flags", err), secretArgValues(args)...)
	}
	serve := plugin.ServeOptions{Stdin: stdin, Stdout: stdout, Stderr: stderr, Args: []string{}, Name: p.Name, Version: p.Version, Timeout: p.Timeout}
	if *version {
		serve.Args = []string{"--version"}
		return plugin.Serve(ctx, nil, serve)
	}
	if err := p.checkArgs(); err != nil {
		return p.printError(stderr, err, secretArgValues(args)...)
	}
	if rest := p.Flags.Args(); len(rest) > 0 && rest[0] == getCredentialsArg {
		serve.Args = rest[:1]
	}
	provider, err := p.New(Input{Args: p.Flags.Args(), Getenv: getenv, Logger: newLogger(stderr, p.Name, *verbosity)})
	if err != nil {
		return p.printError(stderr, err)
	}
	return plugin.Serve(ctx, provider, serve)
}

// getCredentialsArg is the argument that enables [plugin.OutOfTree] requests. Existing
// configurations for the current protocol also contain it.
const getCredentialsArg = "get-credentials"

// checkArgs rejects unused arguments. For example, "--optional false" sets the flag to
// true and leaves an argument.
func (p Program) checkArgs() error {
	for _, arg := range p.Flags.Args() {
		if p.Args == "" && arg != getCredentialsArg {
			return fmt.Errorf("unexpected argument %q; to turn off a boolean flag, use --name=false; --help lists the flags", arg)
		}
	}
	return nil
}

// printError prints an error on one line, because the kubelet logs it, and returns the exit code.
// It redacts the given argument values, because one of them could be a misplaced password.
func (p Program) printError(stderr io.Writer, err error, secrets ...string) int {
	line := strings.Join(strings.Fields(scrub.Redact(err.Error(), secrets)), " ")
	fmt.Fprintf(stderr, "%s: %s\n", p.Name, line)
	return 1
}

// secretArgValues returns the values in args, which may be secret. It leaves out flag names, and
// the words true and false, which users write after boolean flags.
func secretArgValues(args []string) (values []string) {
	for _, arg := range args {
		switch name, value, found := strings.Cut(arg, "="); {
		case found && strings.HasPrefix(arg, "-"):
			values = append(values, value)
		case strings.HasPrefix(arg, "--"):
		case strings.HasPrefix(arg, "-") && len(arg) > len("-x"):
			values = append(values, name[len("-x"):])
		case !strings.HasPrefix(arg, "-") && arg != "true" && arg != "false":
			values = append(values, arg)
		}
	}
	return values
}

// helpWidth is the width of the --help output, in columns.
const helpWidth = 80

func (p Program) helpText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage:\n  %s\n", p.Summary, strings.TrimSpace(p.Name+" [flags] "+p.Args))
	if p.Example != "" {
		fmt.Fprintf(&b, "\nExample:\n%s\n", p.Example)
	}
	fmt.Fprintf(&b, "\nFlags:\n%s", p.Flags.FlagUsagesWrapped(helpWidth))
	return b.String()
}
