// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package textedit

import (
	"bytes"
	"strings"
)

// flowList is a list in brackets: a JSON array or a YAML flow sequence.
type flowList struct {
	text     []byte
	start    int    // offset after the opening bracket
	items    []Span // spans of the items, without white space and commas
	itemEnds []int  // end of each item, including the comma after it
}

func (l *flowList) Len() int { return len(l.items) }

func (l *flowList) ItemSpan(i int) Span { return l.items[i] }

// RemovalSpan implements List. The span includes the comma before the item or, if a comment is
// next to that comma, the comma after the item.
func (l *flowList) RemovalSpan(i int) Span {
	at := l.items[i]
	switch {
	case i > 0 && l.followsComma(i):
		return Span{l.items[i-1].To, at.To}
	case i < len(l.items)-1 && l.followsComma(i+1):
		return Span{at.From, l.items[i+1].From}
	}
	return Span{at.From, l.itemEnds[i]}
}

// followsComma reports whether only a comma and white space separate an item from the previous
// item.
func (l *flowList) followsComma(i int) bool {
	return string(bytes.Trim(l.text[l.items[i-1].To:l.items[i].From], blanks)) == ","
}

// AppendEdits implements List. It inserts the items after the last item or, in an empty list,
// after the opening bracket.
func (l *flowList) AppendEdits(items []ListItem) []Edit {
	s := l.lastItemStyle()
	var b strings.Builder
	for i, item := range items {
		if i > 0 || len(l.items) > 0 {
			b.WriteString("," + s.gap)
		}
		b.WriteString(s.encodeValue(item.Value))
	}
	at := l.start
	if len(l.items) > 0 {
		at = l.items[len(l.items)-1].To
	}
	return []Edit{InsertEdit(at, b.String())}
}

// flowStyle describes how the items of a flow list are formatted.
type flowStyle struct {
	gap            string // white space between a comma and the next item
	prefix, indent string // indentation of each line, and of each level; if indent is "", an item is on one line
	crlf           bool
}

func (s flowStyle) encodeValue(value any) string {
	text := EncodeJSON(value, s.prefix, s.indent)
	if s.crlf {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	return text
}

// lastItemStyle returns the formatting of the last item. For an empty list, it returns a style with
// everything on one line.
func (l *flowList) lastItemStyle() (s flowStyle) {
	if len(l.items) == 0 {
		return flowStyle{gap: " "}
	}
	last := l.items[len(l.items)-1]
	before := l.text[:last.From]
	s.gap = string(before[len(bytes.TrimRight(before, blanks)):])
	first, rest, several := bytes.Cut(l.text[last.From:last.To], []byte("\n"))
	if !several {
		return s
	}
	s.crlf = bytes.HasSuffix(first, []byte("\r"))
	s.prefix = Indentation(l.text[bytes.LastIndexByte(l.text[:last.To], '\n')+1:])
	s.indent = strings.TrimPrefix(Indentation(rest), s.prefix)
	if s.indent == "" || s.indent == Indentation(rest) && s.prefix != "" {
		s.indent = "  "
	}
	if s.gap == "" {
		s.gap = " "
	}
	return s
}

// newFlowList parses the list whose opening bracket is at the offset bracket. It returns nil if
// there is no valid list.
func newFlowList(text []byte, bracket int) List {
	if bracket < 0 || bracket >= len(text) || text[bracket] != '[' {
		return nil
	}
	l := &flowList{text: text, start: bracket + 1}
	item := Span{From: -1}
	for s := (scanner{text: text, pos: l.start}); ; {
		token := s.nextToken()
		switch {
		case token == Span{}:
			return nil
		case s.depth < 0, s.depth == 0 && text[token.From] == ',':
			if item.From >= 0 {
				l.items, l.itemEnds = append(l.items, item), append(l.itemEnds, item.To)
			}
			if s.depth < 0 {
				return l
			}
			if item.From >= 0 {
				l.itemEnds[len(l.items)-1] = token.To
			}
			item = Span{From: -1}
		default:
			if item.From < 0 {
				item.From = token.From
			}
			item.To = token.To
		}
	}
}

// scanner splits a JSON or YAML flow collection into tokens: brackets, commas, and quoted
// scalars. Each byte of other text is a token. The scanner does not validate the text.
type scanner struct {
	text  []byte
	pos   int
	depth int  // number of open brackets; -1 after the list's closing bracket
	plain bool // the scanner is in a plain scalar, where quotes have no meaning
}

// nextToken returns the next token, or an empty span at the end of the text.
func (s *scanner) nextToken() Span {
	s.skipSpace()
	if s.pos >= len(s.text) {
		return Span{}
	}
	from := s.pos
	s.pos++
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
		// A colon after a key ends a plain scalar. A colon inside a plain scalar does not.
		s.plain = s.plain && !s.atSeparator()
	case s.plain:
	case c == '"' || c == '\'':
		s.skipQuoted(c)
	case c == '&' || c == '!':
		// Skip the anchor or tag. The value follows it.
		for s.pos < len(s.text) && !s.atSeparator() {
			s.pos++
		}
	default:
		s.plain = true
	}
	return Span{from, s.pos}
}

// atSeparator reports whether the next byte ends a plain scalar, or the text has ended.
func (s *scanner) atSeparator() bool {
	return s.pos >= len(s.text) || strings.IndexByte(blanks+",[]{}", s.text[s.pos]) >= 0
}

// skipSpace skips white space and comments.
func (s *scanner) skipSpace() {
	for s.pos < len(s.text) {
		switch c := s.text[s.pos]; {
		case strings.IndexByte(blanks, c) >= 0:
			s.pos++
		case c == '#' && strings.IndexByte(blanks, s.text[s.pos-1]) >= 0:
			end := bytes.IndexByte(s.text[s.pos:], '\n')
			if end < 0 {
				end = len(s.text) - s.pos
			}
			s.pos += end
		default:
			return
		}
	}
}

// skipQuoted skips the rest of a quoted scalar. It treats a doubled single quote, which is an
// escaped quote, as the end of one scalar and the start of another. The resulting spans are the
// same.
func (s *scanner) skipQuoted(quote byte) {
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		s.pos++
		switch {
		case c == '\\' && quote == '"':
			s.pos = min(s.pos+1, len(s.text))
		case c == quote:
			return
		}
	}
}
