// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/terminal"
)

// kubeletOfNode is --as-kubelet without a process id: the one that there is.
const kubeletOfNode = "auto"

// app is one run of the program: the world it may touch, and the settings
// that every command shares.
type app struct {
	terminal.Terminal
	stdin   io.Reader
	environ []string
	dir     string // working directory
	root    string // where the node's own paths begin: "/", except in tests

	config, binDir setting
	forHelper      bool // clients' helper is to find the configuration too
	timeout        time.Duration
	asKubelet      string // "" = no, kubeletOfNode, or a process id
	rootDir        string
	verbose        bool

	started bool // a command's own code runs: what fails from here on is not usage
}

func newApp(stdin io.Reader, stdout, stderr io.Writer, environ []string) *app {
	getenv := func(name string) string { return node.Getenv(environ, name) }
	return &app{
		Terminal: terminal.Terminal{Stdout: stdout, Stderr: stderr, Getenv: getenv, Now: time.Now},
		stdin:    stdin,
		environ:  environ,
	}
}

// logger is for -v; without it nothing is logged.
func (a *app) logger() *slog.Logger {
	if !a.verbose {
		return slog.New(slog.DiscardHandler)
	}
	return a.Logger()
}

// print prints a result in the format that was asked for: as JSON, or as the
// text that render makes of it.
func (a *app) print(output *choice, result any, render func(*terminal.Text)) error {
	if output.value == "json" {
		return a.WriteJSON(result)
	}
	t := a.Text()
	render(t)
	return t.Print(a.Stdout)
}

// calledAs is how the program is called that a path leads to: by kubectl too,
// whose plugins are files kubectl-NAME.
func calledAs(path string) string {
	if name := strings.TrimSuffix(filepath.Base(path), ".exe"); name == "kubectl-regcred" {
		return "kubectl regcred"
	}
	return "regcred"
}
