// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// The first thread only waits. A signal to the process is given to that one first,
// and is of no effect while it waits for a mount that hangs.
func init() { runtime.LockOSThread() }

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
	left, settled := make(chan struct{}), make(chan struct{})
	go func() {
		sig := nextSignal(got, left)
		signal.Stop(got) // a second signal kills at once
		if sig != nil {
			ended <- sig
			cancel()
		}
		close(settled)
		if sig != nil {
			time.Sleep(maxEnding)
			os.Exit(dieOf(sig))
		}
	}()
	done := make(chan int)
	go func() {
		done <- f(context.WithValue(ctx, handOverKey{}, func() {
			signal.Stop(got)
			close(left)
			<-settled
		}))
	}()
	code := <-done
	select {
	case sig := <-ended:
		return dieOf(sig)
	default:
		return code
	}
}

// nextSignal waits for a signal, or until left is closed; nil if none came by then.
func nextSignal(got <-chan os.Signal, left <-chan struct{}) os.Signal {
	select {
	case sig := <-got:
		return sig
	case <-left:
	}
	select {
	case sig := <-got:
		return sig
	default:
		return nil
	}
}

// handOverKey is that of what ends withSignals' care of signals, in its context.
type handOverKey struct{}

// handOver leaves signals to the caller, who has asked to be told of them
// before and does this once. The error is that one came already.
func handOver(ctx context.Context) error {
	if stop, ok := ctx.Value(handOverKey{}).(func()); ok {
		stop()
	}
	return ctx.Err()
}

// maxEnding is for how long after a signal f may go on.
const maxEnding = 5 * time.Second

// endingSignals are those that end the program: SIGHUP comes when a session is
// closed. Those that are ignored, as nohup has it, remain so.
func endingSignals(ignored func(os.Signal) bool) []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
	return slices.DeleteFunc(all, ignored)
}
