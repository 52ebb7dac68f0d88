// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
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

// report prints err, if any, and returns the exit code. Of joined errors each
// is told with its hint, and the worst code counts.
func (a *app) report(ctx context.Context, cmd *cobra.Command, err error) int {
	code := exitOK
	interrupted := false
	hinted := map[string]bool{"": true}
	for _, part := range flatten(err) {
		e := a.exitError(cmd, part)
		code = worse(code, e.code)
		if a.nobodyReads(part) {
			continue
		}
		if e.err != nil && ctx.Err() != nil {
			interrupted = true
			continue
		}
		for _, line := range flatten(e.err) {
			fmt.Fprintf(a.stderr, "error: %s\n", printable(line.Error()))
		}
		if !hinted[e.hint] {
			fmt.Fprintf(a.stderr, "hint: %s\n", printable(e.hint))
			hinted[e.hint] = true
		}
	}
	if interrupted {
		fmt.Fprintln(a.stderr, "error: interrupted")
		return exitFailed
	}
	return code
}

// exitError finds code and hint of an error. What wraps an exitError belongs
// to the message.
func (a *app) exitError(cmd *cobra.Command, err error) *exitError {
	if e, ok := err.(*exitError); ok {
		return e
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return &exitError{code: e.code, err: err, hint: e.hint}
	}
	if !a.started {
		return &exitError{code: exitUsage, err: err, hint: helpHint(cmd)}
	}
	return &exitError{code: exitFailed, err: err}
}

// worse returns the worse of two exit codes.
func worse(a, b int) int {
	order := []int{exitOK, exitEmpty, exitFailed, exitUsage}
	if slices.Index(order, a) > slices.Index(order, b) {
		return a
	}
	return b
}

// nobodyReads reports whether err says that the reader of standard output is
// gone, as in "regcred … | head". Whoever did that wants to hear no more.
func (a *app) nobodyReads(err error) bool {
	f, ok := a.stdout.(*os.File)
	failed, isPath := errors.AsType[*fs.PathError](err)
	return ok && isPath && failed.Path == f.Name() && errors.Is(failed, syscall.EPIPE)
}

// flatten takes joined errors apart, so that each gets a line.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var list []error
	for _, e := range joined.Unwrap() {
		list = append(list, flatten(e)...)
	}
	return list
}

// note says on standard error what is worth knowing but no error.
func (a *app) note(format string, args ...any) {
	fmt.Fprintf(a.stderr, "note: %s\n", printable(fmt.Sprintf(format, args...)))
}

func (a *app) warn(format string, args ...any) {
	fmt.Fprintf(a.stderr, "warning: %s\n", printable(fmt.Sprintf(format, args...)))
}
