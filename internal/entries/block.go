// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package entries

import (
	"bytes"
	"slices"
	"strings"
)

// block is a list of which each item begins with a dash on a line of its own.
type block struct {
	text   []byte
	indent string // before a dash
	eol    string
	key    int   // the end of the line that stands before the list
	dashes []int // where the lines of the items begin
	end    int   // where what stands behind the list begins, or the text ends
}

func (l *block) count() int { return len(l.dashes) }

// item is its lines, and comments behind them that are indented as these are,
// since they may be part of a text that goes over several lines.
func (l *block) item(i int) span {
	at := span{l.dashes[i], l.content(i)}
	for next := nextLine(l.text, at.to); next < l.behind(i); next = nextLine(l.text, next) {
		if len(indentation(l.text[next:])) > len(l.indent) {
			at.to = lineEnd(l.text, next)
		}
	}
	return at
}

// cut takes the lines of an item, from the end of the line before them. What
// stands between its last line and the next item is not its own.
func (l *block) cut(i int) span { return span{lineEnd(l.text, l.dashes[i]-1), l.content(i)} }

// places are behind the last line of the last item that is neither empty nor a
// comment; or, since both may be part of a text that goes over several lines,
// behind them.
func (l *block) places(ours []Entry) []insertion {
	var b strings.Builder
	for i := range ours {
		for _, line := range ours[i].lines() {
			b.WriteString(l.eol + l.indent + line)
		}
	}
	if len(l.dashes) == 0 {
		return []insertion{{l.key, b.String()}}
	}
	near, far := l.content(len(l.dashes)-1), lineEnd(l.text, l.end)
	if l.end > 0 && l.text[l.end-1] == '\n' {
		far = lineEnd(l.text, l.end-1)
	}
	return []insertion{{near, b.String()}, {far, b.String()}}
}

// content returns the end of the last line of an item that is neither empty nor
// a comment.
func (l *block) content(i int) int {
	end := lineEnd(l.text, l.dashes[i])
	for at := l.dashes[i]; at < l.behind(i); at = nextLine(l.text, at) {
		line := bytes.TrimLeft(l.text[at:nextLine(l.text, at)], space)
		if len(line) > 0 && line[0] != '#' {
			end = lineEnd(l.text, at)
		}
	}
	return end
}

// behind returns where the next item begins, or what stands behind the list.
func (l *block) behind(i int) int {
	if i+1 < len(l.dashes) {
		return l.dashes[i+1]
	}
	return l.end
}

// lineEnd returns where the line that has an offset ends, without the characters
// that end it.
func lineEnd(text []byte, at int) int {
	end := at
	if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
		end = at + i
	} else {
		return len(text)
	}
	if end > 0 && text[end-1] == '\r' {
		end--
	}
	return end
}

// nextLine returns where the line behind that of an offset begins.
func nextLine(text []byte, at int) int {
	if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

// readBlock reads the list whose items have something of theirs on certain
// lines, by the offsets where these begin; nil if it is not written in lines.
func readBlock(text []byte, key int, items []int, end int) *block {
	l := &block{text: text, key: lineEnd(text, key), end: end, eol: "\n"}
	if bytes.HasPrefix(text[l.key:], []byte("\r\n")) {
		l.eol = "\r\n"
	}
	floor := nextLine(text, key)
	for i, at := range items {
		// The dash may stand alone, on a line before.
		for !dash(text[at:]) {
			if at <= floor {
				return nil
			}
			at = bytes.LastIndexByte(text[:at-1], '\n') + 1
		}
		indent := indentation(text[at:])
		if i > 0 && indent != l.indent || at < floor {
			return nil
		}
		l.indent, floor = indent, nextLine(text, at)
		l.dashes = append(l.dashes, at)
	}
	if len(items) == 0 {
		l.indent = indentation(text[key:])
	}
	return l
}

// dash reports whether a text begins with an item.
func dash(text []byte) bool {
	text = bytes.TrimLeft(text, " ")
	return len(text) > 0 && text[0] == '-' && (len(text) == 1 || slices.Contains([]byte(space), text[1]))
}
