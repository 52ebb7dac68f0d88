// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package entries

import (
	"bytes"
	"strings"
)

// scanner splits what stands in brackets, of JSON or of YAML, into tokens:
// brackets, commas, quoted texts, and whatever else there is, byte by byte. What
// it makes of a text is checked by who reads the result: it is no judge of what
// is valid.
type scanner struct {
	text  []byte
	at    int
	depth int  // how many brackets were opened; -1 behind the last that closes
	plain bool // within a text without quotes, where these mean themselves
}

// next returns the next token; the empty span at the end of the text.
func (s *scanner) next() span {
	s.skip()
	if s.at >= len(s.text) {
		return span{}
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
		// Behind a name comes a value. A colon within a text goes on.
		s.plain = s.plain && s.at < len(s.text) && strings.IndexByte(space+",[]{}", s.text[s.at]) < 0
	case s.plain:
	case c == '"' || c == '\'':
		s.quoted(c)
	case c == '&' || c == '!':
		// A property: the value is still to come.
		for s.at < len(s.text) && strings.IndexByte(space+",[]{}", s.text[s.at]) < 0 {
			s.at++
		}
	default:
		s.plain = true
	}
	return span{from, s.at}
}

// skip goes over white space and comments, which begin behind it.
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

// quoted goes behind the quote that ends a text. A quote in one text is written
// as two, in the other behind a backslash; two are two texts here, which is the
// same.
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
