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

// The main thread only waits. Linux delivers a signal for the process to it first, and
// the signal has no effect while that thread is blocked on a hung mount.
func init() { runtime.LockOSThread() }

// withSignals runs f with a context that is canceled by a signal, so that f can stop
// plugins, remove files and print its result. Then the program ends by the same signal,
// so that a shell loop ends too. withSignals does not wait for calls that cannot be
// canceled, for example stat on a hung mount.
func withSignals(f func(context.Context) int) int {
	// Turn SIGPIPE into a write error. Ignoring the signal would do the same, but plugins
	// would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	got := make(chan os.Signal, 1)
	signal.Notify(got, endingSignals(signal.Ignored)...)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan os.Signal, 1)
	left, settled := make(chan struct{}), make(chan struct{})
	go func() {
		sig := nextSignal(got, left)
		signal.Stop(got) // the next signal kills the process
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

// nextSignal waits for a signal. It returns nil if left is closed first.
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

// handOverKey is the context key for the function that stops signal handling in
// withSignals.
type handOverKey struct{}

// handOver makes the caller responsible for signals. The caller must have called
// signal.Notify before, and call handOver only once. It returns an error if a signal
// has already arrived.
func handOver(ctx context.Context) error {
	if stop, ok := ctx.Value(handOverKey{}).(func()); ok {
		stop()
	}
	return ctx.Err()
}

// maxEnding limits the time that f may take after a signal.
const maxEnding = 5 * time.Second

// endingSignals returns the signals that end the program. SIGHUP is sent when a session
// is closed. Ignored signals, as under nohup, stay ignored.
func endingSignals(ignored func(os.Signal) bool) []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
	return slices.DeleteFunc(all, ignored)
}
