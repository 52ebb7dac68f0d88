// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// withSignals runs f with a context that a signal ends, so that plugins are
// ended, files removed and what is done is told before the program ends too:
// by that signal, so that a shell that runs it in a loop ends the loop. What
// cannot be broken off, such as a look at a mount that hangs, is left so soon.
func withSignals(f func(context.Context) int) int {
	// A reader that went away becomes a failed write. Ignoring the signal would
	// do that too, but plugins would inherit it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	got := make(chan os.Signal, 1)
	signal.Notify(got, endingSignals(signal.Ignored)...)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan os.Signal, 1)
	go func() {
		sig := <-got
		signal.Stop(got) // a second signal kills at once
		ended <- sig
		cancel()
		time.Sleep(maxEnding)
		os.Exit(dieOf(sig))
	}()
	code := f(ctx)
	select {
	case sig := <-ended:
		return dieOf(sig)
	default:
		return code
	}
}

// maxEnding is for how long after a signal f may go on.
const maxEnding = 5 * time.Second

// endingSignals are those that end the program: SIGHUP comes when a session is
// closed. Those that are ignored, as nohup has it, remain so.
func endingSignals(ignored func(os.Signal) bool) []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
	return slices.DeleteFunc(all, ignored)
}
