// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"bytes"
	"fmt"

	yaml2 "go.yaml.in/yaml/v2"
	"go.yaml.in/yaml/v3"
)

// nodeCost is what a value counts beside its text, in bytes of an expansion. As
// many values are allowed as entries without aliases.
const nodeCost = maxConfigSize / maxConfigEntries

// checkExpansion refuses a document whose aliases would expand to more than
// a file may hold. The decoder bounds how many nodes they make, but not how
// long these are, so that a few kilobytes can become gigabytes.
func (s *source) checkExpansion() error {
	if text := s.text(); !hasName(text, '&') || !hasName(text, '*') || isComment(text) {
		return nil
	}
	switch n := s.root(); {
	case n != nil && expandedSize(n, map[*yaml.Node]int{}, 0) > maxConfigSize:
		return &FieldError{File: s.name, Msg: fmt.Sprintf("YAML aliases expand to more than %d MiB or more than %d values: replace the aliases with their values", maxConfigSize>>20, maxConfigEntries)}
	case n == nil && isYAML(s.data()):
		// What cannot be counted here might be expanded there.
		return &FieldError{File: s.name, Msg: "YAML aliases cannot be checked, because the text after the document has no --- separator: remove that text"}
	}
	return nil
}

// isComment reports whether a text is nothing but comments.
func isComment(text []byte) bool {
	for len(text) > 0 {
		var line []byte
		line, text = cutLine(text)
		if line = bytes.TrimLeft(line, " \t\ufeff"); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// hasName reports whether there may be an anchor (&) or an alias (*) in a text:
// the indicator with a name behind it, where neither a plain text goes on nor a
// quoted one begins or ends.
func hasName(text []byte, indicator byte) bool {
	for i, c := range text[:max(len(text)-1, 0)] {
		if c != indicator || !isNameByte(text[i+1]) {
			continue
		}
		if i == 0 || !isNameByte(text[i-1]) && text[i-1] != '"' && text[i-1] != '\'' {
			return true
		}
	}
	return false
}

func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// isYAML reports whether the deciding parser takes the syntax of a file. It
// expands nothing.
func isYAML(data []byte) bool {
	return yaml2.Unmarshal(data, &undecoded{}) == nil
}

// undecoded is a document that is parsed, and decoded into nothing.
type undecoded struct{}

// UnmarshalYAML does not ask for the value.
func (*undecoded) UnmarshalYAML(func(any) error) error { return nil }

// expandedSize estimates how many bytes of JSON a node becomes, at most just
// above maxConfigSize.
func expandedSize(n *yaml.Node, anchored map[*yaml.Node]int, depth int) int {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil {
		return 0
	}
	if depth > maxExpansionDepth {
		return maxConfigSize + 1
	}
	if n.Anchor != "" {
		if size, ok := anchored[n]; ok {
			return size
		}
		anchored[n] = 0 // for a node that contains itself; the decoder refuses it
	}
	size := len(n.Value) + nodeCost
	for _, child := range n.Content {
		size = min(size+expandedSize(child, anchored, depth+1), maxConfigSize+1)
	}
	if n.Anchor != "" {
		anchored[n] = size
	}
	return size
}

// maxExpansionDepth is deeper than the decoder of JSON goes.
const maxExpansionDepth = 10000
