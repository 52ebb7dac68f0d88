// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package pluginmain is what the mains of this repository's plugins are made
// of: flags anywhere on the command line, --help, --version, a verbosity, and
// then [plugin.Serve].
//
//	func main() {
//		opts := static.Options{}
//		flags := pluginmain.Flags()
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

	"github.com/regcred/regcred/internal/scrub"
	"github.com/regcred/regcred/plugin"
)

// Program is a plugin with flags.
type Program struct {
	Name    string // the file name that configurations use
	Version string // printed by --version; "" means that of the main module
	Args    string // the arguments that are no flags, as the usage line names them; "" means that there are none
	Summary string // what it does, for --help: one or a few lines
	Example string // for --help, indented by two spaces

	// Flags are the program's own, made by [Flags].
	Flags *pflag.FlagSet

	// VersionShorthand is a letter for --version, for programs that others
	// have given one.
	VersionShorthand string

	// Timeout bounds one run; 0 means [plugin.DefaultServeTimeout].
	Timeout time.Duration

	// New makes the provider, once the flags are parsed. Its errors concern
	// flags, environment and files that are needed whatever the image is.
	New func(Input) (plugin.Provider, error)
}

// Input is what a program is given beside its flags.
type Input struct {
	Args   []string            // the arguments that are no flags
	Getenv func(string) string // the environment
	Logger *slog.Logger        // standard error: warnings, and more at the verbosity that was asked for; never nil
}

// Flags returns an empty set of flags, which are listed in the order in which
// they are added.
func Flags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.Usage = func() {}
	return flags
}

// IgnoreKlog accepts the flags of klog, as they stand in configurations in the
// field, and does nothing with them. --v is that of every [Program].
func IgnoreKlog(flags *pflag.FlagSet) {
	for _, name := range []string{
		"logtostderr", "alsologtostderr", "legacy_stderr_threshold_behavior",
		"add_dir_header", "skip_headers", "skip_log_headers", "one_output",
	} {
		flags.Bool(name, false, "")
	}
	for _, name := range []string{
		"vmodule", "alsologtostderrthreshold", "stderrthreshold", "log_dir", "log_file",
		"log_file_max_size", "log_backtrace_at", "log-flush-frequency",
	} {
		flags.String(name, "", "")
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Usage == "" {
			f.Hidden = true
		}
	})
}

// Main runs the program with the process's own arguments, streams and
// environment, and exits. SIGTERM and an interrupt end it.
func (p Program) Main() {
	// Not undone at the end, which takes longer than a small plugin runs.
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	os.Exit(p.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}

// Run runs the program and returns its exit code: that of [plugin.Serve], or 1
// if flags or settings are wrong.
func (p Program) Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string) int {
	verbosity := p.Flags.IntP("v", p.verbosityShorthand(), 0, "log `level` for standard error: 2 logs steps, 4 logs details")
	version := p.Flags.BoolP("version", p.VersionShorthand, false, "print the version")
	switch err := p.Flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprint(stdout, p.help())
		return 0
	case err != nil:
		return p.fail(stderr, fmt.Errorf("%w; --help lists the flags", err), argumentValues(args)...)
	}
	serve := plugin.ServeOptions{Stdin: stdin, Stdout: stdout, Stderr: stderr, Args: []string{}, Name: p.Name, Version: p.Version, Timeout: p.Timeout}
	if *version {
		serve.Args = []string{"--version"}
		return plugin.Serve(ctx, nil, serve)
	}
	if err := p.checkArgs(); err != nil {
		return p.fail(stderr, err, argumentValues(args)...)
	}
	if rest := p.Flags.Args(); len(rest) > 0 && rest[0] == getCredentials {
		serve.Args = rest[:1]
	}
	provider, err := p.New(Input{Args: p.Flags.Args(), Getenv: getenv, Logger: logger(stderr, p.Name, *verbosity)})
	if err != nil {
		return p.fail(stderr, err)
	}
	return plugin.Serve(ctx, provider, serve)
}

// getCredentials is the argument that allows a request of [plugin.OutOfTree].
// It stands in configurations of today's protocol too, whatever the plugin.
const getCredentials = "get-credentials"

// checkArgs refuses arguments that nobody would read: "--optional false" is a
// switch that is on, and one of these.
func (p Program) checkArgs() error {
	for _, arg := range p.Flags.Args() {
		if p.Args == "" && arg != getCredentials {
			return fmt.Errorf("unexpected argument %q; to turn off a boolean flag, use --name=false; --help lists the flags", arg)
		}
	}
	return nil
}

// verbosityShorthand makes "-v 3" and "-v=3" work where -v is not --version.
func (p Program) verbosityShorthand() string {
	if p.VersionShorthand == "v" {
		return ""
	}
	return "v"
}

// fail says on one line what is wrong, which a kubelet logs. What was given as
// an argument may be a password in the wrong place.
func (p Program) fail(stderr io.Writer, err error, secrets ...string) int {
	line := strings.Join(strings.Fields(scrub.Text(err.Error(), secrets)), " ")
	fmt.Fprintf(stderr, "%s: %s\n", p.Name, line)
	return 1
}

// argumentValues returns what of the arguments is neither the name of a flag nor
// a boolean, which people write behind switches.
func argumentValues(args []string) (values []string) {
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

// helpColumns is the width of --help.
const helpColumns = 80

func (p Program) help() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage:\n  %s\n", p.Summary, strings.TrimSpace(p.Name+" [flags] "+p.Args))
	if p.Example != "" {
		fmt.Fprintf(&b, "\nExample:\n%s\n", p.Example)
	}
	fmt.Fprintf(&b, "\nFlags:\n%s", p.Flags.FlagUsagesWrapped(helpColumns))
	return b.String()
}
