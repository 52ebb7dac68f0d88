// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package await calls code that somebody else wrote and that runs in this
// process: a provider, a source, access to service accounts, an observer. A
// caller is bound by its context alone, whatever that code does: it may
// ignore the context, panic, or end its goroutine.
//
//	token, err := await.Result(ctx, "request", func() (plugin.Secret, error) { return accounts.RequestToken(ctx, req) })
//
// It does not end what ignores its context, which Go cannot do: that is left
// behind with its goroutine.
package await

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// Broken is the error of code that neither returned nor was left behind: it
// panicked, or ended its goroutine. It holds no value of others.
type Broken struct {
	What string // that was done
	How  string
}

// Error says what was done, and what happened.
func (e *Broken) Error() string { return e.What + ": " + e.How }

// Result returns what f returns, or the cause of ctx's end if that comes
// first. What f returns later is dropped. A panic in f is an error that names
// the place and not the value, which may be anything, a secret too; like that
// of an ended goroutine it is of type [*Broken]. An error that is not f's begins
// with what was done.
func Result[T any](ctx context.Context, what string, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		res := result{err: &Broken{what, "it called runtime.Goexit"}}
		defer func() {
			if recover() != nil {
				res = result{err: &Broken{what, "panic " + panicSite()}}
			}
			done <- res
		}()
		res.value, res.err = f()
		if res.err != nil {
			_ = res.err.Error() // of a nil pointer, it panics here and not at who prints it
		}
	}()
	select {
	case res := <-done:
		return res.value, res.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("%s: %w", what, ended{context.Cause(ctx), ctx.Err()})
	}
}

// ended is the cause of a context's end, which package errors still finds to be
// a timeout or a cancellation: a cause may be any error.
type ended struct{ cause, is error }

func (e ended) Error() string   { return e.cause.Error() }
func (e ended) Unwrap() []error { return []error{e.cause, e.is} }

// panicSite says where the panic being recovered began.
func panicSite() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	panicking := false
	for {
		frame, more := frames.Next()
		inRuntime := strings.HasPrefix(frame.Function, "runtime.")
		switch {
		case frame.Function == "runtime.gopanic":
			panicking = true
		case panicking && !inRuntime:
			return fmt.Sprintf("in %s (%s:%d)", frame.Function, filepath.Base(frame.File), frame.Line)
		}
		if !more {
			return "at an unknown location"
		}
	}
}
