// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"bytes"
	"fmt"

	yaml2 "go.yaml.in/yaml/v2"

	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/textedit"
)

// nodeOverhead is counted for each value in an expansion, in addition to the size of its text.
// It ensures that expanded aliases do not exceed maxConfigEntries values.
const nodeOverhead = maxConfigSize / maxConfigEntries

// checkExpansion rejects a document whose aliases expand to more than the size limit of a
// configuration. The decoder limits the number of nodes but not their size, so it would expand
// a few kilobytes to gigabytes.
func (s *sourceFile) checkExpansion() error {
	if text := s.text(); !hasAnchorOrAlias(text, '&') || !hasAnchorOrAlias(text, '*') || isOnlyComments(text) {
		return nil
	}
	switch n := s.root(); {
	case n != nil && textedit.ExpandedSize(n, nodeOverhead, maxConfigSize) > maxConfigSize:
		return &FieldError{File: s.name, Msg: fmt.Sprintf("YAML aliases expand to more than %d MiB or more than %d values: replace the aliases with their values", maxConfigSize>>20, maxConfigEntries), err: regularfile.ErrLimit}
	case n == nil && isYAML(s.data()):
		// The parser of textedit failed, but the decoder may expand the aliases.
		return &FieldError{File: s.name, Msg: "YAML aliases cannot be checked, because the text after the document has no --- separator: remove that text", err: regularfile.ErrLimit}
	}
	return nil
}

func isOnlyComments(text []byte) bool {
	for len(text) > 0 {
		var line []byte
		line, text = textedit.CutLine(text)
		if line = bytes.TrimLeft(line, " \t\ufeff"); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// hasAnchorOrAlias reports whether a text may contain an anchor (&) or an alias (*). It looks
// for the indicator before a name, but not after a quote or inside a word.
func hasAnchorOrAlias(text []byte, indicator byte) bool {
	for i, c := range text[:max(len(text)-1, 0)] {
		if c != indicator || !isAnchorNameByte(text[i+1]) {
			continue
		}
		if i == 0 || !isAnchorNameByte(text[i-1]) && text[i-1] != '"' && text[i-1] != '\'' {
			return true
		}
	}
	return false
}

func isAnchorNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// isYAML reports whether the decoder can parse a file. It does not expand aliases.
func isYAML(data []byte) bool {
	return yaml2.Unmarshal(data, &discardedDocument{}) == nil
}

// discardedDocument discards a parsed document.
type discardedDocument struct{}

// UnmarshalYAML does not decode the value.
func (*discardedDocument) UnmarshalYAML(func(any) error) error { return nil }
