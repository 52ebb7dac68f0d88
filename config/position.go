// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/regcred/regcred/internal/excerpt"
)

// fieldPath is the path of a field in a document or provider: field names (string) and
// list indices (int, from 0).
type fieldPath []any

// hiddenName is a name in a [fieldPath] that may be a misplaced secret. Messages show neither
// the name nor the elements after it.
type hiddenName string

// String returns the path as text, for example "providers[2].matchImages[0]".
func (p fieldPath) String() string {
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
		case hiddenName:
			return b.String()
		}
	}
	return b.String()
}

// parsePath parses the text of a path. Field names contain no dots or brackets.
func parsePath(p string) (path fieldPath) {
	for _, name := range strings.FieldsFunc(p, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		if i, err := strconv.Atoi(name); err == nil {
			path = append(path, i)
		} else {
			path = append(path, name)
		}
	}
	return path
}

// append returns a copy of p with one more element.
func (p fieldPath) append(e any) fieldPath { return append(p[:len(p):len(p)], e) }

// Position is a position in a configuration. In the zero value, all parts are unknown.
type Position struct {
	File         string // "" for a Config without files
	Line, Column int    // starts at 1, Column in bytes; 0 if unknown
	Path         string // within the file, e.g. "providers[2].matchImages[0]"
}

// String returns "file:line:column". If the line is unknown, it returns "file: path" or
// only the path.
func (p Position) String() string {
	switch {
	case p.File == "":
		return p.Path
	case p.Line == 0:
		return p.File + ": " + p.Path
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

func (p Position) newFieldError(value, msg string) *FieldError {
	return &FieldError{File: p.File, Line: p.Line, Column: p.Column, Path: p.Path, Value: excerpt.TruncateValue(value), Msg: msg}
}

// fileLine returns "file:line", or "" if either is unknown.
func (p Position) fileLine() string {
	if p.File == "" || p.Line == 0 {
		return ""
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}
