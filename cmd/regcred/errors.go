// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"fmt"

	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/report"
)

// Exit codes, the same for every command.
const (
	exitOK     = report.ExitOK     // yes: found, valid, passed
	exitFailed = report.ExitFailed // no: something failed or is invalid
	exitUsage  = report.ExitUsage  // called wrongly
	exitEmpty  = report.ExitEmpty  // nothing matched, or the response has no credentials
)

// exitError ends the program with an exit code after everything except the hint has
// been printed.
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

// withHint adds a hint on how to fix err.
func withHint(err error, hint string) error { return &node.Error{Err: err, Hint: hint} }

// usageError returns an error about wrong arguments or flags.
func usageError(hint, format string, args ...any) error {
	return &node.Error{Err: fmt.Errorf(format, args...), Hint: hint, Usage: true}
}
