// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"fmt"
	"strings"

	"github.com/regcred/regcred/internal/excerpt"
)

// FieldPath leads from the top of a document, or of a provider, to a place in
// it: names of fields (string) and indices of lists (int, from 0). Elements of
// another type lead nowhere.
type FieldPath []any

// hidden is a name in a [FieldPath] that may be a secret gone astray. Neither
// it nor what follows it is shown.
type hidden string

// String is, for example, "providers[2].matchImages[0]".
func (p FieldPath) String() string {
	var b strings.Builder
	for _, e := range p {
		switch e := e.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", e)
		case string:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(e)
		case hidden:
			return b.String()
		}
	}
	return b.String()
}

// with returns p with one more element, in memory of its own.
func (p FieldPath) with(e any) FieldPath { return append(p[:len(p):len(p)], e) }

// Position is where something stands in a configuration. The zero value is
// nowhere.
type Position struct {
	File         string // "" for a Config that was not loaded
	Line, Column int    // from 1, Column in bytes; 0 if unknown
	Path         string // a [FieldPath] within the file
}

// String is "file:line:column", "file: path" where these are unknown, or the
// path alone.
func (p Position) String() string {
	switch {
	case p.File == "":
		return p.Path
	case p.Line == 0:
		return p.File + ": " + p.Path
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// problem is an error about what stands at p: of its value as much as may be
// shown, and what is wrong with it.
func (p Position) problem(value, msg string) *FieldError {
	return &FieldError{File: p.File, Line: p.Line, Column: p.Column, Path: p.Path, Value: excerpt.Value(value), Msg: msg}
}

// FileLine returns "file:line"; "" if either is unknown.
func (p Position) FileLine() string {
	if p.File == "" || p.Line == 0 {
		return ""
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}
