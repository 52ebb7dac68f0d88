// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package textedit

import (
	"bytes"
	"strings"
)

// flowList is a list in brackets: a JSON array, or a YAML flow sequence.
type flowList struct {
	text     []byte
	start    int    // offset after the opening bracket
	items    []Span // spans of the items, without the text between them
	itemEnds []int  // offset after the comma that follows each item, or the end of the item
}

func (l *flowList) Len() int { return len(l.items) }

func (l *flowList) ItemSpan(i int) Span { return l.items[i] }

// RemovalSpan includes the comma before the item unless a comment is next to it, else
// the comma after it.
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

// followsComma reports whether only a comma and white space separate an item from the
// previous one.
func (l *flowList) followsComma(i int) bool {
	return string(bytes.Trim(l.text[l.items[i-1].To:l.items[i].From], blanks)) == ","
}

// AppendEdits inserts after the last item or, in an empty list, after the bracket.
func (l *flowList) AppendEdits(items []NewItem) []Edit {
	s := l.style()
	var b strings.Builder
	for i, item := range items {
		if i > 0 || len(l.items) > 0 {
			b.WriteString("," + s.gap)
		}
		b.WriteString(s.encode(item.Value))
	}
	at := l.start
	if len(l.items) > 0 {
		at = l.items[len(l.items)-1].To
	}
	return []Edit{InsertEdit(at, b.String())}
}

// flowStyle describes the white space in a flow list.
type flowStyle struct {
	gap            string // white space between a comma and the next item
	prefix, indent string // of a line and of a level; an empty indent means one line
	crlf           bool
}

func (s flowStyle) encode(value any) string {
	text := EncodeJSON(value, s.prefix, s.indent)
	if s.crlf {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	return text
}

// style returns the style of the last item, or one line for an empty list.
func (l *flowList) style() (s flowStyle) {
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

// newFlowList reads the list whose bracket is at an offset. It returns nil
// if the text there is not a list.
func newFlowList(text []byte, bracket int) List {
	if bracket < 0 || bracket >= len(text) || text[bracket] != '[' {
		return nil
	}
	l := &flowList{text: text, start: bracket + 1}
	item := Span{From: -1}
	for s := (scanner{text: text, pos: l.start}); ; {
		token := s.next()
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

// scanner splits a JSON or YAML flow collection into tokens: brackets, commas, quoted
// scalars, and all other text byte by byte. It does not validate the text.
type scanner struct {
	text  []byte
	pos   int
	depth int  // number of open brackets; -1 after the closing bracket of the list
	plain bool // in a plain scalar, where quotes have no meaning
}

// next returns the next token, or an empty span at the end.
func (s *scanner) next() Span {
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
		// A colon inside a plain scalar does not end it, but a colon after a key does.
		s.plain = s.plain && !s.atSeparator()
	case s.plain:
	case c == '"' || c == '\'':
		s.skipQuoted(c)
	case c == '&' || c == '!':
		// The value follows after an anchor or tag.
		for s.pos < len(s.text) && !s.atSeparator() {
			s.pos++
		}
	default:
		s.plain = true
	}
	return Span{from, s.pos}
}

// atSeparator reports whether the next byte ends a plain scalar, or the text ends.
func (s *scanner) atSeparator() bool {
	return s.pos >= len(s.text) || strings.IndexByte(blanks+",[]{}", s.text[s.pos]) >= 0
}

// skipSpace skips white space and any comments after it.
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

// skipQuoted skips the rest of a quoted scalar. A doubled single quote, which is an escaped
// quote, is read as two scalars. The effect is the same.
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
