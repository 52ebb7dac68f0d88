// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package textedit

import (
	"bytes"
	"strings"
)

// scanner splits a flow collection, in JSON or YAML, into tokens: brackets,
// commas, quoted scalars, and all other text byte by byte. It does not validate.
type scanner struct {
	text  []byte
	at    int
	depth int  // number of open brackets; -1 after the list's own bracket
	plain bool // in a plain scalar, where quotes have no meaning
}

// next returns the next token, or an empty span at the end of the text.
func (s *scanner) next() Span {
	s.skip()
	if s.at >= len(s.text) {
		return Span{}
	}
	from := s.at
	s.at++
	switch c := s.text[from]; {
	case c == '[' || c == '{':
		s.depth++
		s.plain = false
	case c == ']' || c == '}':
		s.depth--
		s.plain = false
	case c == ',':
		s.plain = false
	case c == ':':
		// A colon within a plain scalar does not end it; one after a key does.
		s.plain = s.plain && !s.atSeparator()
	case s.plain:
	case c == '"' || c == '\'':
		s.quoted(c)
	case c == '&' || c == '!':
		// An anchor or a tag: the value follows.
		for s.at < len(s.text) && !s.atSeparator() {
			s.at++
		}
	default:
		s.plain = true
	}
	return Span{from, s.at}
}

// atSeparator reports whether the next byte ends a plain scalar, or the text ends.
func (s *scanner) atSeparator() bool {
	return s.at >= len(s.text) || strings.IndexByte(space+",[]{}", s.text[s.at]) >= 0
}

// skip skips white space, and comments, which follow white space.
func (s *scanner) skip() {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case strings.IndexByte(space, c) >= 0:
			s.at++
		case c == '#' && strings.IndexByte(space, s.text[s.at-1]) >= 0:
			end := bytes.IndexByte(s.text[s.at:], '\n')
			if end < 0 {
				end = len(s.text) - s.at
			}
			s.at += end
		default:
			return
		}
	}
}

// quoted skips the rest of a quoted scalar. A single quote is escaped by
// doubling it, which reads as two scalars here, with the same effect.
func (s *scanner) quoted(quote byte) {
	for s.at < len(s.text) {
		c := s.text[s.at]
		s.at++
		switch {
		case c == '\\' && quote == '"':
			s.at = min(s.at+1, len(s.text))
		case c == quote:
			return
		}
	}
}
