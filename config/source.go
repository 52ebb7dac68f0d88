// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"iter"
	"sync"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/regcred/regcred/internal/textedit"
)

// maxNodeDepth limits the depth to which aliases and merges are followed.
const maxNodeDepth = 32

// sourceFile finds positions in a file. It parses the file on first use. It is safe for
// concurrent use.
type sourceFile struct {
	name  string
	data  func() []byte     // a closure, so that fmt and reflection do not print it
	text  func() []byte     // data, converted to UTF-8
	root  func() *yaml.Node // nil if the file cannot be parsed
	lines func() []int      // offsets of the line starts in text
}

func newSourceFile(name string, data []byte) *sourceFile {
	s := &sourceFile{name: name, data: func() []byte { return data }}
	s.text = sync.OnceValue(func() []byte { return textedit.ToUTF8(data) })
	s.root = sync.OnceValue(func() *yaml.Node {
		// This parser would also parse the text after the first document, but the decoder
		// ignores it.
		document, _ := textedit.FirstDocument(s.text())
		root, _ := textedit.ParseYAML(document)
		return root
	})
	s.lines = sync.OnceValue(func() []int { return textedit.LineStarts(s.text()) })
	return s
}

// findNode follows p from the root of the document as far as possible. It returns the last
// node, the node's key if it is in a mapping, and the number of path elements that were found.
func (s *sourceFile) findNode(p fieldPath) (key, value *yaml.Node, length int) {
	value = s.root()
	if value == nil {
		return nil, nil, 0
	}
	for i, e := range p {
		k, v := childNode(value, e, 0)
		if v == nil {
			return key, value, i
		}
		key, value = k, v
	}
	return key, value, len(p)
}

// valuePosition returns the position of the value at p. If there is no value, it returns the
// position of the nearest parent.
func (s *sourceFile) valuePosition(p fieldPath) Position {
	_, value, _ := s.findNode(p)
	return s.withNodePosition(Position{File: s.name, Path: p.String()}, value)
}

// keyPosition returns the position of the last field name in p.
func (s *sourceFile) keyPosition(p fieldPath) Position {
	key, value, length := s.findNode(p)
	if length == len(p) && key != nil {
		value = key
	}
	return s.withNodePosition(Position{File: s.name, Path: p.String()}, value)
}

// childNode returns a child of a node, and its key if the node is a mapping.
func childNode(n *yaml.Node, e any, depth int) (key, value *yaml.Node) {
	n = textedit.ResolveAlias(n)
	if n == nil || depth > maxNodeDepth {
		return nil, nil
	}
	switch e := e.(type) {
	case int:
		return nil, textedit.SequenceItem(n, e)
	case string:
		return lookupField(n, e, depth)
	case hiddenName:
		return lookupField(n, string(e), depth)
	}
	return nil, nil
}

// lookupField finds a field in a mapping or in the mappings merged into it.
func lookupField(n *yaml.Node, name string, depth int) (key, value *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		return nil, nil
	}
	// Iterate backwards, because the decoder uses the last of duplicate fields.
	for i := len(n.Content) - 2; i >= 0; i -= 2 {
		if k := textedit.ResolveAlias(n.Content[i]); k != nil && k.Value == name && !isMergeKey(k) {
			return n.Content[i], n.Content[i+1]
		}
	}
	for _, m := range mergedMappings(n) {
		if k, v := childNode(m, name, depth+1); k != nil {
			return k, v
		}
	}
	return nil, nil
}

func isMergeKey(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Value == "<<" && n.Tag == "!!merge"
}

// mergedMappings returns an iterator over the mappings that are merged into n, with their merge
// keys.
func mergedMappings(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, mapping *yaml.Node) bool) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !isMergeKey(n.Content[i]) {
				continue
			}
			named := n.Content[i+1 : i+2]
			if named[0].Kind == yaml.SequenceNode {
				named = named[0].Content
			}
			for _, m := range named {
				if m = textedit.ResolveAlias(m); m != nil && m.Kind == yaml.MappingNode && !yield(n.Content[i], m) {
					return
				}
			}
		}
	}
}

// withNodePosition sets the line and column of a position to the node's line and column, if
// the node is not nil.
func (s *sourceFile) withNodePosition(at Position, n *yaml.Node) Position {
	if n == nil {
		return at
	}
	at.Line, at.Column = n.Line, byteColumn(s.lineText(n.Line), n.Column)
	return at
}

// lineText returns a line of the file, counted from 1, without its line end.
func (s *sourceFile) lineText(number int) []byte {
	text, starts := s.text(), s.lines()
	if number < 1 || number > len(starts) {
		return nil
	}
	line, _ := textedit.CutLine(text[starts[number-1]:])
	return line
}

// byteColumn converts a column in characters to a column in bytes.
func byteColumn(line []byte, column int) int {
	n := 0
	for range column - 1 {
		if n >= len(line) {
			break
		}
		_, size := utf8.DecodeRune(line[n:])
		n += size
	}
	return n + 1
}
