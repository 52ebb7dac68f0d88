// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package await calls third-party code in this process, such as a provider or a
// source, which may ignore its context, panic or exit its goroutine. The caller
// waits only until its context ends.
//
//	token, err := await.Result(ctx, "request", func() (plugin.Secret, error) { return accounts.RequestToken(ctx, req) })
//
// Go cannot stop a goroutine. So a call that ignores its context continues in the
// background.
package await

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// Broken is the error of a call that panicked or exited its goroutine. It does
// not contain the panic value, which may be a secret.
type Broken struct {
	What string // the operation
	How  string // what happened
}

func (e *Broken) Error() string { return e.What + ": " + e.How }

// Result returns the result of f, or the cause of ctx if that ends first; a
// later result of f is dropped. After a panic and after runtime.Goexit the error
// is a [*Broken]. Errors that f did not return begin with the operation.
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
			_ = res.err.Error() // panics here rather than in the caller if err is a nil pointer
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

// ended is a context's cause that also matches context.Canceled or
// context.DeadlineExceeded.
type ended struct{ cause, is error }

func (e ended) Error() string   { return e.cause.Error() }
func (e ended) Unwrap() []error { return []error{e.cause, e.is} }

// panicSite returns the location of the panic that is being recovered.
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
