// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"fmt"
)

// The exit codes, the same for every command.
const (
	exitOK     = 0 // yes: found, valid, passed
	exitFailed = 1 // no: something failed or is invalid
	exitUsage  = 2 // called wrongly
	exitEmpty  = 3 // nothing matched, or the answer is empty
)

// exitError ends the program with a code, and with a hint where a person
// would ask "and now?". Without err nothing more is said.
type exitError struct {
	code int
	err  error
	hint string
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usageError(hint, format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...), hint: hint}
}

func withHint(err error, hint string) error {
	return &exitError{code: exitFailed, err: err, hint: hint}
}

// exit ends the program with code after everything has been said.
func exit(code int) error {
	if code == exitOK {
		return nil
	}
	return &exitError{code: code}
}
