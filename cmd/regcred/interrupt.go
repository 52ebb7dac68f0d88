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

// init keeps the main goroutine on the main thread, which only waits. Linux delivers a signal for
// the process to the main thread first, and the signal has no effect while that thread is blocked
// on a hung mount.
func init() { runtime.LockOSThread() }

// runWithSignals runs f with a context that a signal cancels, so that f can stop plugins, remove
// files and print its result. After that, the program kills itself with the same signal, so that a
// shell loop ends too. runWithSignals does not wait for calls that cannot be canceled, for example
// stat on a hung mount.
func runWithSignals(f func(context.Context) int) int {
	// Turn SIGPIPE into a write error. Ignoring the signal would have the same effect,
	// but plugins would inherit the ignored signal.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	got := make(chan os.Signal, 1)
	signal.Notify(got, terminationSignals(signal.Ignored)...)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan os.Signal, 1)
	left, settled := make(chan struct{}), make(chan struct{})
	go func() {
		sig := waitForSignal(got, left)
		signal.Stop(got) // the next signal kills the process
		if sig != nil {
			ended <- sig
			cancel()
		}
		close(settled)
		if sig != nil {
			time.Sleep(shutdownTimeout)
			os.Exit(exitBySignal(sig))
		}
	}()
	done := make(chan int)
	go func() {
		done <- f(context.WithValue(ctx, signalHandoffKey{}, func() {
			signal.Stop(got)
			close(left)
			<-settled
		}))
	}()
	code := <-done
	select {
	case sig := <-ended:
		return exitBySignal(sig)
	default:
		return code
	}
}

// waitForSignal waits until a signal arrives or left is closed. It returns nil if no signal has
// arrived when left is closed.
func waitForSignal(got <-chan os.Signal, left <-chan struct{}) os.Signal {
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

// signalHandoffKey is the context key for the function that stops signal handling in
// runWithSignals.
type signalHandoffKey struct{}

// takeOverSignals makes the caller responsible for signals. The caller must have called
// signal.Notify before, and call takeOverSignals only once. It returns an error if a signal
// has already arrived.
func takeOverSignals(ctx context.Context) error {
	if stop, ok := ctx.Value(signalHandoffKey{}).(func()); ok {
		stop()
	}
	return ctx.Err()
}

// shutdownTimeout limits how long runWithSignals waits for f after a signal.
const shutdownTimeout = 5 * time.Second

// terminationSignals returns the signals that end the program. It leaves out ignored signals, such
// as SIGHUP under nohup.
func terminationSignals(ignored func(os.Signal) bool) []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
	return slices.DeleteFunc(all, ignored)
}
