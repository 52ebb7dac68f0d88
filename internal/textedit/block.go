// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package textedit

import (
	"bytes"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// blockList is a YAML block sequence: each item begins with a dash on its own line.
type blockList struct {
	text   []byte
	indent string // indentation of the dashes
	eol    string
	keyEnd int   // offset of the end of the key's line
	dashes []int // offsets of the lines that start with a dash
	end    int   // offset of the text after the list
}

func (l *blockList) Len() int { return len(l.dashes) }

// ItemSpan implements List. The span includes comments after the item that are indented more
// than its dash, because they may be lines of a block scalar.
func (l *blockList) ItemSpan(i int) Span {
	at := Span{l.dashes[i], l.contentEnd(i)}
	for next := nextLine(l.text, at.To); next < l.itemEnd(i); next = nextLine(l.text, next) {
		if len(Indentation(l.text[next:])) > len(l.indent) {
			at.To = lineEnd(l.text, next)
		}
	}
	return at
}

// RemovalSpan implements List. The span starts at the end of the line before the item. It does
// not include empty lines and comments after the item.
func (l *blockList) RemovalSpan(i int) Span {
	return Span{lineEnd(l.text, l.dashes[i]-1), l.contentEnd(i)}
}

// AppendEdits implements List. The first edit inserts the items after the last line that is
// neither empty nor a comment. The second edit inserts them after trailing comments, because
// these comments may be lines of a block scalar.
func (l *blockList) AppendEdits(items []ListItem) []Edit {
	var b strings.Builder
	for _, item := range items {
		for _, line := range item.Lines {
			b.WriteString(l.eol + l.indent + line)
		}
	}
	if len(l.dashes) == 0 {
		return []Edit{InsertEdit(l.keyEnd, b.String())}
	}
	near, far := l.contentEnd(len(l.dashes)-1), lineEnd(l.text, l.end)
	if l.end > 0 && l.text[l.end-1] == '\n' {
		far = lineEnd(l.text, l.end-1)
	}
	return []Edit{InsertEdit(near, b.String()), InsertEdit(far, b.String())}
}

// contentEnd returns the end of the last line of an item that is neither empty nor a comment.
func (l *blockList) contentEnd(i int) int {
	end := lineEnd(l.text, l.dashes[i])
	for at := l.dashes[i]; at < l.itemEnd(i); at = nextLine(l.text, at) {
		line := bytes.TrimLeft(l.text[at:nextLine(l.text, at)], blanks)
		if len(line) > 0 && line[0] != '#' {
			end = lineEnd(l.text, at)
		}
	}
	return end
}

// itemEnd returns the offset of the line after an item: the next item or the text after the
// list.
func (l *blockList) itemEnd(i int) int {
	if i+1 < len(l.dashes) {
		return l.dashes[i+1]
	}
	return l.end
}

// parseItems sets the positions of the items. key is the offset of the key's line. parse returns nil
// if an item does not begin on its own line, or if the dashes have different indentations.
func (l blockList) parseItems(key int, list *yaml.Node, lines *LineIndex) List {
	if key < 0 || l.end < key {
		return nil
	}
	l.keyEnd, l.eol = lineEnd(l.text, key), "\n"
	if bytes.HasPrefix(l.text[l.keyEnd:], []byte("\r\n")) {
		l.eol = "\r\n"
	}
	floor := nextLine(l.text, key)
	for i, item := range list.Content {
		at := lines.lineStart(item.Line)
		// The dash may be on a line before the item's first field, so search backwards.
		for at < floor || !isItemStart(l.text[at:]) {
			if at <= floor {
				return nil
			}
			at = bytes.LastIndexByte(l.text[:at-1], '\n') + 1
		}
		indent := Indentation(l.text[at:])
		if i > 0 && indent != l.indent {
			return nil
		}
		l.indent, floor = indent, nextLine(l.text, at)
		l.dashes = append(l.dashes, at)
	}
	if len(list.Content) == 0 {
		l.indent = Indentation(l.text[key:])
	}
	return &l
}

func isItemStart(line []byte) bool {
	line = bytes.TrimLeft(line, " ")
	return len(line) > 0 && line[0] == '-' && (len(line) == 1 || slices.Contains([]byte(blanks), line[1]))
}
