// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package service

import "context"

// Error is a failure of which is known what to do about it.
type Error struct {
	Err  error
	Hint string // what to do
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the failure.
func (e *Error) Unwrap() error { return e.Err }

// timeout is the end of a wait: a [context.DeadlineExceeded] that says of what.
type timeout string

func (t timeout) Error() string { return string(t) }

func (timeout) Is(target error) bool { return target == context.DeadlineExceeded }
