// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"fmt"
	"slices"

	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/report"
)

// Exit codes, the same for every command.
const (
	exitOK      = report.ExitOK     // success: found, valid, passed
	exitFailed  = report.ExitFailed // failure: something failed or is invalid
	exitUsage   = report.ExitUsage  // invalid arguments or flags
	exitNoMatch = report.ExitEmpty  // nothing matched, or the response has no credentials
)

// exitError ends the program with an exit code. Everything except the hint has already been
// printed.
type exitError struct {
	code int
	hint string
}

func (e *exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// exitWithCode ends the program with code.
func exitWithCode(code int) error {
	if code == exitOK {
		return nil
	}
	return &exitError{code: code}
}

// withHint adds a hint on how to fix err.
func withHint(err error, hint string) error { return &node.HintError{Err: err, Hint: hint} }

// usageError returns an error about invalid arguments or flags.
func usageError(hint, format string, args ...any) error {
	return &node.HintError{Err: fmt.Errorf(format, args...), Hint: hint, Usage: true}
}

// worseExitCode returns the worse of two exit codes. The exit code of another command ("exec")
// takes precedence.
func worseExitCode(a, b int) int {
	order := []int{exitUsage, exitFailed, exitNoMatch, exitOK} // slices.Index returns -1 for the code of another command
	if slices.Index(order, a) < slices.Index(order, b) {
		return a
	}
	return b
}
