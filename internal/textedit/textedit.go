// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package textedit changes YAML and JSON files without touching any other byte:
// it finds lists, fields and lines in a text and applies edits to it.
//
//	list := textedit.FindYAML(data, data, "providers")
//	for _, edit := range list.AppendEdits(items) {
//		changed := textedit.Apply(data, edit)
//		…
//	}
//
// It does not decide what a file means. The YAML parser used here may disagree
// with the one that reads the file, and a text may be written in unusual ways,
// so callers must parse the result again and compare it with what they wanted.
package textedit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// Span is a part of a text, from one offset to another.
type Span struct{ From, To int }

// Edit replaces a span with new text. An empty span inserts the text.
type Edit struct {
	Span
	New string
}

// InsertEdit returns the edit that inserts a text at an offset.
func InsertEdit(at int, text string) Edit { return Edit{Span{at, at}, text} }

// Apply applies edits to text. Edits must not overlap. Identical edits are applied
// once, because YAML aliases refer to the same place.
func Apply(text []byte, edits ...Edit) []byte {
	edits = slices.Clone(edits)
	slices.SortStableFunc(edits, func(a, b Edit) int { return cmp.Compare(a.From, b.From) })
	var out []byte
	from := 0
	for _, e := range slices.Compact(edits) {
		out = append(append(out, text[from:e.From]...), e.New...)
		from = e.To
	}
	return append(out, text[from:]...)
}

// EncodeJSON writes a value as JSON that leaves <, > and & as they are: on one
// line if indent is "", else on several, all but the first with the prefix. The
// value must consist of types that always encode.
func EncodeJSON(value any, prefix, indent string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent(prefix, indent)
	_ = enc.Encode(value)
	return strings.TrimSuffix(b.String(), "\n")
}
