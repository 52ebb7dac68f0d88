// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Regcred resolves container registry credentials as a Kubernetes node does, and
// explains every step. See docs/cli for the commands.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
)

func main() {
	os.Exit(runWithSignals(func(ctx context.Context) int {
		return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ())
	}))
}

// run is main without global state. It returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	dir, _ := os.Getwd() // if the directory was deleted, only commands that need it fail
	a := newApp(stdin, stdout, stderr, environ)
	a.dir, a.root = dir, "/"
	return a.run(ctx, args)
}

// autoKubelet is the value of --as-kubelet without a process ID: the node's only
// kubelet.
const autoKubelet = "auto"

// app is one run of the program: its environment, and the settings shared by every
// command.
type app struct {
	terminal.Terminal
	stdin   io.Reader
	environ []string
	dir     string // working directory
	root    string // root of the node's paths: "/", except in tests

	config, binDir aliasedFlag
	forHelper      bool // find the configuration that the credential helper will use
	timeout        time.Duration
	asKubelet      string // "" = no, autoKubelet, or a process ID
	rootDir        string
	verbose        bool

	started bool // a command is running, so later errors are not usage errors
}

func newApp(stdin io.Reader, stdout, stderr io.Writer, environ []string) *app {
	getenv := func(name string) string { return node.Getenv(environ, name) }
	return &app{
		Terminal: terminal.Terminal{Stdout: stdout, Stderr: stderr, Getenv: getenv, Now: time.Now},
		stdin:    stdin,
		environ:  environ,
	}
}

// logger returns the logger for -v. Without -v it discards everything.
func (a *app) logger() *slog.Logger {
	if !a.verbose {
		return slog.New(slog.DiscardHandler)
	}
	return a.Logger()
}

// print prints a result as JSON or, with render, as text.
func (a *app) print(output *enumFlag, result any, render func(*terminal.Text)) error {
	if output.value == "json" {
		return a.WriteJSON(result)
	}
	t := a.NewText()
	render(t)
	return t.FlushTo(a.Stdout)
}

// commandName returns the command that runs the program at path: "kubectl regcred" for the
// kubectl plugin kubectl-regcred.
func commandName(path string) string {
	if name := strings.TrimSuffix(filepath.Base(path), ".exe"); name == "kubectl-regcred" {
		return "kubectl regcred"
	}
	return "regcred"
}

// Exit codes, the same for every command.
const (
	exitOK      = report.ExitOK     // success: found, valid, passed
	exitFailed  = report.ExitFailed // failure: something failed or is invalid
	exitUsage   = report.ExitUsage  // called wrongly
	exitNoMatch = report.ExitEmpty  // nothing matched, or the response has no credentials
)

// exitError ends the program with an exit code, after all output except the hint has
// been printed.
type exitError struct {
	code int
	hint string
}

func (e *exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// exitWithCode ends the program with code.
func exitWithCode(code int) error {
	if code == exitOK {
		return nil
	}
	return &exitError{code: code}
}

// withHint adds a hint on how to fix err.
func withHint(err error, hint string) error { return &node.HintError{Err: err, Hint: hint} }

// usageError returns an error about invalid arguments or flags.
func usageError(hint, format string, args ...any) error {
	return &node.HintError{Err: fmt.Errorf(format, args...), Hint: hint, Usage: true}
}
