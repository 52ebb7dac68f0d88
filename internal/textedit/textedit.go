// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package textedit changes lists in YAML and JSON files and keeps every other byte, including
// comments and formatting. It finds lists, fields and lines in a text, and applies edits to the
// text.
//
//	list := textedit.FindYAMLList(data, data, "providers")
//	for _, edit := range list.AppendEdits(items) {
//		changed := textedit.Apply(data, edit)
//		…
//	}
//
// Callers must parse the result and check that it has the intended content. The YAML parser in
// this package may differ from the parser of the program that reads the file, and files may use
// unusual syntax.
package textedit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// Span is the part of a text between two offsets.
type Span struct{ From, To int }

// Edit replaces a span with new text. An empty span inserts the text.
type Edit struct {
	Span
	Text string
}

// InsertEdit returns an edit that inserts text at an offset.
func InsertEdit(at int, text string) Edit { return Edit{Span{at, at}, text} }

// Apply applies edits to a text. The edits must not overlap. Identical edits are applied once,
// because several YAML aliases may refer to the same value.
func Apply(text []byte, edits ...Edit) []byte {
	edits = slices.Clone(edits)
	slices.SortStableFunc(edits, func(a, b Edit) int { return cmp.Compare(a.From, b.From) })
	var out []byte
	from := 0
	for _, e := range slices.Compact(edits) {
		out = append(append(out, text[from:e.From]...), e.Text...)
		from = e.To
	}
	return append(out, text[from:]...)
}

// EncodeJSON encodes a value as JSON, and does not escape <, > and &. If indent is "", the
// result is one line. Otherwise each line except the first begins with prefix. The value must
// have a type that can always be encoded.
func EncodeJSON(value any, prefix, indent string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent(prefix, indent)
	_ = enc.Encode(value)
	return strings.TrimSuffix(b.String(), "\n")
}
