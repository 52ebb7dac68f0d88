// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/regcred/regcred/finding"
)

// FieldError describes a problem in a configuration. [Load], [Parse], [ParseDir] and
// [Config.Validate] return a FieldError, or several joined with [errors.Join]. A FieldError
// never contains a value of env, args or extraArgs.
type FieldError struct {
	File   string // "" for a Config without files
	Line   int    // starts at 1; 0 if unknown
	Column int    // in bytes, starts at 1; 0 if unknown
	Path   string // e.g. "providers[2].matchImages[0]"
	Value  string // the invalid value; empty for values of env and args
	Msg    string // the problem and how to fix it

	err error // the operating system's error if the file could not be read
}

// Unwrap returns the operating system's error, such as [io/fs.ErrPermission], if the file could
// not be read.
func (e *FieldError) Unwrap() error { return e.err }

// Error returns "file:line:column: path: message: \"value\"". Unknown parts are omitted.
func (e *FieldError) Error() string {
	msg := e.Msg
	if e.Value != "" {
		msg += fmt.Sprintf(": %q", e.Value)
	}
	return finding.Finding{File: e.File, Line: e.Line, Column: e.Column, Path: e.Path, Message: msg}.String()
}

const maxFieldErrors = 100

type fieldErrors struct{ errs []*FieldError }

func (l *fieldErrors) isFull() bool { return len(l.errs) > maxFieldErrors }

func (l *fieldErrors) add(err *FieldError) {
	switch {
	case l.isFull():
	case len(l.errs) == maxFieldErrors:
		l.errs = append(l.errs, &FieldError{File: err.File, Msg: "too many problems; fix these first"})
	default:
		l.errs = append(l.errs, err)
	}
}

// joinSorted joins the errors, sorted by file and line. It returns nil if none exist.
func (l *fieldErrors) joinSorted() error {
	slices.SortStableFunc(l.errs, func(a, b *FieldError) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	errs := make([]error, len(l.errs))
	for i, err := range l.errs {
		errs[i] = err
	}
	return errors.Join(errs...)
}
