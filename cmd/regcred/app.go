// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"io"
	"log/slog"
	"time"
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

// logger is for -v; without it nothing is logged.
func (a *app) logger() *slog.Logger {
	if !a.verbose {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
