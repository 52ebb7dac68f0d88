// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package textedit

import (
	"bytes"

	"go.yaml.in/yaml/v3"

	"github.com/regcred/regcred/internal/jsonplace"
)

// List is a list in the text of a JSON or YAML file.
type List interface {
	// Len returns the number of items in the list.
	Len() int
	// ItemSpan returns the span of an item. The span contains no part of another item.
	ItemSpan(i int) Span
	// RemovalSpan returns the span that must be deleted to remove an item. The span contains no
	// part of another item.
	RemovalSpan(i int) Span
	// AppendEdits returns edits that append items to the list. Each edit is an alternative; the
	// best is first. Deleting the RemovalSpan of each added item restores the text.
	AppendEdits(items []ListItem) []Edit
}

// ListItem is an item to append, in the formats for both kinds of lists.
type ListItem struct {
	Lines []string // lines for a block sequence without indentation; the first begins with a dash
	Value any      // value for a flow list; see [EncodeJSON]
}

// FindJSONList returns the list in the given field of a JSON object. It returns nil if there is no
// such list.
func FindJSONList(text []byte, field string) List {
	top, err := jsonplace.Parse(text)
	if err != nil {
		return nil
	}
	for _, m := range top.Members {
		if m.Key == field && m.Kind == jsonplace.KindArray {
			return newFlowList(text, m.Value.Start)
		}
	}
	return nil
}

// FindYAMLList returns the list in the given field of the top mapping of a YAML document. text must
// begin with the document. FindYAMLList returns nil if there is no such list, or if the list is
// elsewhere, as with an alias.
func FindYAMLList(text, document []byte, field string) List {
	top, err := ParseYAML(document)
	i := mappingKeyIndex(top, field)
	if err != nil || i < 0 || !bytes.HasPrefix(text, document) {
		return nil
	}
	lines := NewLineIndex(document)
	value := top.Content[i+1]
	switch {
	case value.Kind == yaml.SequenceNode && value.Style&yaml.FlowStyle != 0:
		return newFlowList(text, skipProperties(document, lines.Offset(value.Line, value.Column)))
	case top.Style&yaml.FlowStyle != 0:
		return nil
	case value.Kind == yaml.SequenceNode, value.Kind == yaml.ScalarNode && value.Tag == "!!null" && value.Value == "":
		b := blockList{text: text, end: len(document)}
		if i+2 < len(top.Content) {
			b.end = lines.lineStart(top.Content[i+2].Line)
		}
		return b.parseItems(lines.lineStart(top.Content[i].Line), value, lines)
	}
	return nil
}

// skipProperties returns the offset of a node's value after its anchor and tag. It returns -1
// if there is no value.
func skipProperties(text []byte, at int) int {
	if at < 0 {
		return -1
	}
	for s := (scanner{text: text, pos: at}); ; {
		switch token := s.nextToken(); {
		case token == Span{}:
			return -1
		case text[token.From] == '&', text[token.From] == '!':
		default:
			return token.From
		}
	}
}
