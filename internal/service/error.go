// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package service

import (
	"context"
	"fmt"
	"time"
)

// Error is a failure with a hint for fixing it.
type Error struct {
	Err  error
	Hint string // how to fix the failure
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.Err }

// timeoutError is a [context.DeadlineExceeded] error with a custom message.
type timeoutError string

func (t timeoutError) Error() string { return string(t) }

func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// withTimeout calls f with a timeout and adds the attempted operation to its error.
func withTimeout(ctx context.Context, limit time.Duration, what string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, timeoutError("no response within "+limit.String()))
	defer cancel()
	if err := f(ctx); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
