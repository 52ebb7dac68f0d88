// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Regcred resolves container-registry credentials as a Kubernetes node does,
// and explains every step. docs/cli.md describes the commands.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

func main() {
	os.Exit(withSignals(func(ctx context.Context) int {
		return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ())
	}))
}

// withSignals runs f with a context that a signal ends, so that plugins are
// ended and files removed before the program is.
func withSignals(f func(context.Context) int) int {
	// A reader that went away becomes a failed write. Ignoring the signal would
	// do that too, but plugins would inherit it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), endingSignals(signal.Ignored)...)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal kills at once
	return f(ctx)
}

// endingSignals are those that end the program: SIGHUP comes when a session is
// closed. Those that are ignored, as nohup has it, remain so.
func endingSignals(ignored func(os.Signal) bool) []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
	return slices.DeleteFunc(all, ignored)
}

// run is the whole program without its globals. It returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	dir, _ := os.Getwd() // if it was deleted, what needs it says so
	a := newApp(stdin, stdout, stderr, environ)
	a.dir, a.root = dir, "/"
	return a.run(ctx, args)
}
