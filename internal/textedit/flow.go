// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package textedit

import (
	"bytes"
	"strings"
)

// flowList is a list in brackets: a JSON array, or a YAML flow sequence.
type flowList struct {
	text  []byte
	start int    // after the opening bracket
	items []Span // without the text between them
	ends  []int  // after the comma that follows an item, or the end of the item
}

func (l *flowList) Len() int { return len(l.items) }

func (l *flowList) Item(i int) Span { return l.items[i] }

// Cut includes the comma before the item unless a comment is next to it, else
// the comma after it.
func (l *flowList) Cut(i int) Span {
	at := l.items[i]
	switch {
	case i > 0 && l.followsComma(i):
		return Span{l.items[i-1].To, at.To}
	case i < len(l.items)-1 && l.followsComma(i+1):
		return Span{at.From, l.items[i+1].From}
	}
	return Span{at.From, l.ends[i]}
}

// followsComma reports whether there is only a comma and white space between an
// item and the one before.
func (l *flowList) followsComma(i int) bool {
	return string(bytes.Trim(l.text[l.items[i-1].To:l.items[i].From], space)) == ","
}

// Append inserts after the last item, or after the bracket.
func (l *flowList) Append(items []NewItem) []Edit {
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
	return []Edit{Insert(at, b.String())}
}

// flowStyle is the white space of a flow list.
type flowStyle struct {
	gap            string // between a comma and the next item
	prefix, indent string // of a line, and of a level; no indent means one line
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
	s.gap = string(before[len(bytes.TrimRight(before, space)):])
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
	for s := (scanner{text: text, at: l.start}); ; {
		token := s.next()
		switch {
		case token == Span{}:
			return nil
		case s.depth < 0, s.depth == 0 && text[token.From] == ',':
			if item.From >= 0 {
				l.items, l.ends = append(l.items, item), append(l.ends, item.To)
			}
			if s.depth < 0 {
				return l
			}
			if item.From >= 0 {
				l.ends[len(l.items)-1] = token.To
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
