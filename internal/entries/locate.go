// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package entries

import (
	"bytes"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/regcred/regcred/config"
)

// locate finds the list of providers in the text of a file; nil if it is
// written in another way than lists are: as an alias, in another encoding, or
// not at all.
func locate(f *config.File) list {
	if f.IsJSON() {
		return orNone(readFlow(f.Data(), jsonBracket(f.Data())))
	}
	doc, _ := f.Document()
	if !bytes.HasPrefix(f.Data(), doc) {
		return nil // UTF-16
	}
	root := parse(doc)
	key, value, next := field(root, "providers")
	switch {
	case key == nil:
		return nil
	case value.Kind == yaml.SequenceNode && value.Style&yaml.FlowStyle != 0:
		return orNone(readFlow(f.Data(), bracket(doc, value)))
	case root.Style&yaml.FlowStyle != 0:
		return nil
	case value.Kind == yaml.SequenceNode, value.Kind == yaml.ScalarNode && value.Tag == "!!null" && value.Value == "":
		return blockOf(f.Data(), doc, key, value, next)
	}
	return nil
}

// orNone keeps a nil out of an interface.
func orNone(l *flow) list {
	if l == nil {
		return nil
	}
	return l
}

// parse returns the top of a document; nil if it is no mapping. It decides
// nothing: what is done by what it says is looked at afterwards.
func parse(doc []byte) (root *yaml.Node) {
	// A file that the deciding parser took must not fail here.
	defer func() {
		if recover() != nil {
			root = nil
		}
	}()
	var n yaml.Node
	if err := yaml.Unmarshal(doc, &n); err != nil || len(n.Content) == 0 || n.Content[0].Kind != yaml.MappingNode {
		return nil
	}
	return n.Content[0]
}

// field returns a field of a mapping, and the key behind it; nil if there is
// none.
func field(n *yaml.Node, name string) (key, value, next *yaml.Node) {
	for i := 0; n != nil && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			if i+2 < len(n.Content) {
				next = n.Content[i+2]
			}
			return n.Content[i], n.Content[i+1], next
		}
	}
	return nil, nil, nil
}

// bracket returns where a flow sequence has its bracket, before which there may
// be properties; -1 if it is not there.
func bracket(doc []byte, n *yaml.Node) int {
	at := lineStart(doc, n.Line)
	if at < 0 {
		return -1
	}
	if n.Line == 1 {
		at += len(doc) - len(bytes.TrimPrefix(doc, []byte("\ufeff")))
	}
	for range n.Column - 1 {
		_, size := utf8.DecodeRune(doc[at:])
		at += size
	}
	s := scanner{text: doc, at: at}
	for {
		switch token := s.next(); {
		case token == span{}:
			return -1
		case doc[token.from] == '&', doc[token.from] == '!':
		default:
			return token.from
		}
	}
}

// lineStart returns where a line begins, counted from 1; -1 if there is none.
func lineStart(text []byte, line int) int {
	at := 0
	for ; line > 1; line-- {
		next := nextLine(text, at)
		if next == at {
			return -1
		}
		at = next
	}
	return at
}

// blockOf reads a list that is written in lines, or is to be.
func blockOf(text, doc []byte, key, value, next *yaml.Node) list {
	keyLine, end := lineStart(doc, key.Line), len(doc)
	if next != nil {
		end = lineStart(doc, next.Line)
	}
	var items []int
	for _, n := range value.Content {
		items = append(items, lineStart(doc, n.Line))
	}
	if keyLine < 0 || end < keyLine {
		return nil
	}
	if l := readBlock(text, keyLine, items, end); l != nil {
		return l
	}
	return nil
}
