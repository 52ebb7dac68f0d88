// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package await calls third-party code in this process, such as a provider or a source. The
// code may ignore its context, panic or exit its goroutine. The caller waits only until its
// context is done.
//
//	token, err := await.Call(ctx, "request", func() (plugin.Secret, error) { return accounts.RequestToken(ctx, req) })
//
// Go cannot stop a goroutine. So a call that ignores its context continues in the background.
package await

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// CallError is the error of a call that panicked or called runtime.Goexit. It does not
// contain the panic value, which may be a secret.
type CallError struct {
	Operation string // the operation
	Failure   string // how it failed
}

func (e *CallError) Error() string { return e.Operation + ": " + e.Failure }

// Call returns the result of f. If ctx is done first, it returns the cause of ctx and drops the
// later result of f. If f panics or calls runtime.Goexit, the error is a [*CallError]. Except
// for errors that f returns, error messages begin with the operation what.
func Call[T any](ctx context.Context, what string, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		res := result{err: &CallError{what, "it called runtime.Goexit"}}
		defer func() {
			if recover() != nil {
				res = result{err: &CallError{what, "panic " + panicLocation()}}
			}
			done <- res
		}()
		res.value, res.err = f()
		if res.err != nil {
			_ = res.err.Error() // if err contains a nil pointer, panic here and not in the caller
		}
	}()
	select {
	case res := <-done:
		return res.value, res.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("%s: %w", what, contextDoneError{context.Cause(ctx), ctx.Err()})
	}
}

// contextDoneError is the cause of a context. It also matches context.Canceled or
// context.DeadlineExceeded.
type contextDoneError struct{ cause, contextErr error }

func (e contextDoneError) Error() string   { return e.cause.Error() }
func (e contextDoneError) Unwrap() []error { return []error{e.cause, e.contextErr} }

// panicLocation returns the location of the panic being recovered.
func panicLocation() string {
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
