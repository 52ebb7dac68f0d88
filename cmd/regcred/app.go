// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/terminal"
)

// autoKubelet is the value of --as-kubelet if no process ID is given. It selects the node's only
// kubelet.
const autoKubelet = "auto"

// app holds the environment of one run of the program, and the settings that all commands share.
type app struct {
	terminal.Terminal
	stdin   io.Reader
	environ []string
	dir     string // working directory
	root    string // root of the node's paths: "/", except in tests

	config, binDir aliasedFlag
	target         *config.Target // kubelet to validate the configuration for; nil if no flag selects one
	forHelper      bool           // find the configuration that the credential helper will use
	timeout        time.Duration
	asKubelet      string // autoKubelet or a process ID; "" if the flag is not set
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

// newLogger returns the logger for -v. Without -v it discards everything.
func (a *app) newLogger() *slog.Logger {
	if !a.verbose {
		return slog.New(slog.DiscardHandler)
	}
	return a.Logger()
}

// printResult prints a result as JSON or, with render, as text.
func (a *app) printResult(output *enumFlag, result any, render func(*terminal.Text)) error {
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
