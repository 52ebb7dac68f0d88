// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package entries

import (
	"bytes"
	"encoding/json"
	"strings"
)

// flow is a list in brackets: of JSON, or of a flow sequence in YAML.
type flow struct {
	text   []byte
	open   int    // behind the bracket
	items  []span // without what stands between them
	behind []int  // behind the comma that follows an item, or the item if none does
}

const space = " \t\r\n"

func (l *flow) count() int { return len(l.items) }

func (l *flow) item(i int) span { return l.items[i] }

// cut takes the comma before an item, if nothing but that is there, or the one
// behind it.
func (l *flow) cut(i int) span {
	at := l.items[i]
	switch {
	case i > 0 && l.plain(i):
		return span{l.items[i-1].to, at.to}
	case i < len(l.items)-1 && l.plain(i+1):
		return span{at.from, l.items[i+1].from}
	}
	return span{at.from, l.behind[i]}
}

// plain reports whether there is nothing but a comma and white space before an
// item.
func (l *flow) plain(i int) bool {
	return string(bytes.Trim(l.text[l.items[i-1].to:l.items[i].from], space)) == ","
}

// places is one: behind the last item, or the bracket.
func (l *flow) places(ours []Entry) []insertion {
	s := l.style()
	var b strings.Builder
	for i := range ours {
		if i > 0 || len(l.items) > 0 {
			b.WriteString("," + s.gap)
		}
		b.WriteString(s.item(&ours[i]))
	}
	at := l.open
	if len(l.items) > 0 {
		at = l.items[len(l.items)-1].to
	}
	return []insertion{{at, b.String()}}
}

// style is how items are written.
type style struct {
	gap            string // between a comma and the next item
	prefix, indent string // of lines, and of a level; no indent: on one line
	crlf           bool
}

func (s style) item(e *Entry) string {
	text := encode(e.wire(), s.prefix, s.indent)
	if s.crlf {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	return text
}

// style is that of the last item; on one line, if there is none.
func (l *flow) style() (s style) {
	if len(l.items) == 0 {
		return style{gap: " "}
	}
	last := l.items[len(l.items)-1]
	item := l.text[last.from:last.to]
	before := l.text[:last.from]
	s.gap = string(before[len(bytes.TrimRight(before, space)):])
	first, rest, several := bytes.Cut(item, []byte("\n"))
	if !several {
		return s
	}
	s.crlf = bytes.HasSuffix(first, []byte("\r"))
	s.prefix = indentation(l.text[bytes.LastIndexByte(l.text[:last.to], '\n')+1:])
	s.indent = strings.TrimPrefix(indentation(rest), s.prefix)
	if s.indent == "" || s.indent == indentation(rest) && s.prefix != "" {
		s.indent = "  "
	}
	if s.gap == "" {
		s.gap = " "
	}
	return s
}

// indentation is the blanks with which a text begins.
func indentation(text []byte) string {
	return string(text[:len(text)-len(bytes.TrimLeft(text, " \t"))])
}

// jsonBracket returns where the providers of a JSON document have their bracket,
// or -1.
func jsonBracket(data []byte) int {
	dec := json.NewDecoder(bytes.NewReader(data))
	if begin, err := dec.Token(); err != nil || begin != json.Delim('{') {
		return -1
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return -1
		}
		if name == "providers" {
			rest := data[dec.InputOffset():]
			return len(data) - len(bytes.TrimLeft(rest, space+":"))
		}
		if err := dec.Decode(new(json.RawMessage)); err != nil {
			return -1
		}
	}
	return -1
}

// readFlow reads the list whose bracket stands at an offset; nil if there is
// none.
func readFlow(text []byte, bracket int) *flow {
	if bracket < 0 || bracket >= len(text) || text[bracket] != '[' {
		return nil
	}
	l := &flow{text: text, open: bracket + 1}
	item := span{from: -1}
	for s := (scanner{text: text, at: l.open}); ; {
		token := s.next()
		switch {
		case token == span{}:
			return nil
		case s.depth < 0, s.depth == 0 && text[token.from] == ',':
			if item.from >= 0 {
				l.items, l.behind = append(l.items, item), append(l.behind, item.to)
			}
			if s.depth < 0 {
				return l
			}
			if item.from >= 0 {
				l.behind[len(l.items)-1] = token.to
			}
			item = span{from: -1}
		default:
			if item.from < 0 {
				item.from = token.from
			}
			item.to = token.to
		}
	}
}
