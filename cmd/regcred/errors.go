// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"fmt"

	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/report"
)

// The exit codes, the same for every command.
const (
	exitOK     = report.ExitOK     // yes: found, valid, passed
	exitFailed = report.ExitFailed // no: something failed or is invalid
	exitUsage  = report.ExitUsage  // called wrongly
	exitEmpty  = report.ExitEmpty  // nothing matched, or the answer is empty
)

// exitError ends the program with a code when everything has been said, but
// for a hint.
type exitError struct {
	code int
	hint string
}

func (e *exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// exit ends the program with code.
func exit(code int) error {
	if code == exitOK {
		return nil
	}
	return &exitError{code: code}
}

// withHint adds what to do where a person would ask "and now?".
func withHint(err error, hint string) error { return &node.Error{Err: err, Hint: hint} }

// usageError says that the program was called wrongly.
func usageError(hint, format string, args ...any) error {
	return &node.Error{Err: fmt.Errorf(format, args...), Hint: hint, Usage: true}
}
