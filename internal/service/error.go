// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package service

import "context"

// Error is a failure with a hint.
type Error struct {
	Err  error
	Hint string // how to fix it
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the failure.
func (e *Error) Unwrap() error { return e.Err }

// timeout is a [context.DeadlineExceeded] with another text.
type timeout string

func (t timeout) Error() string { return string(t) }

func (timeout) Is(target error) bool { return target == context.DeadlineExceeded }
