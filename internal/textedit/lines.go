// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package textedit

import (
	"bytes"
	"unicode/utf8"
)

const (
	blanks        = " \t\r\n"
	byteOrderMark = "\ufeff"
)

// LineIndex finds the offsets of lines and columns in a text. It is not safe for concurrent
// use.
type LineIndex struct {
	text   []byte
	starts []int
	last   position
}

// position is the last position that was looked up. A search for a later column of the same
// line starts there, because the whole file may be one line.
type position struct{ line, column, offset int }

// NewLineIndex returns an index of the lines in a text. Only "\n" ends a line. A byte order
// mark is not part of the first line.
func NewLineIndex(text []byte) *LineIndex {
	l := &LineIndex{text: text, starts: []int{len(text) - len(bytes.TrimPrefix(text, []byte(byteOrderMark)))}}
	for i, c := range text {
		if c == '\n' {
			l.starts = append(l.starts, i+1)
		}
	}
	return l
}

// Line returns the span of a line without its "\n". The first line is 1. Line returns false if
// the line does not exist.
func (l *LineIndex) Line(number int) (Span, bool) {
	switch {
	case number < 1 || number > len(l.starts):
		return Span{}, false
	case number == len(l.starts):
		return Span{l.starts[number-1], len(l.text)}, true
	}
	return Span{l.starts[number-1], l.starts[number] - 1}, true
}

// lineStart returns the offset of a line, or -1 if the line does not exist.
func (l *LineIndex) lineStart(number int) int {
	if line, ok := l.Line(number); ok {
		return line.From
	}
	return -1
}

// Offset returns the offset of a column. Columns count characters from 1, as in yaml.Node. If
// the line is shorter, Offset returns the end of the line. If the line does not exist, it
// returns -1.
func (l *LineIndex) Offset(line, column int) int {
	span, ok := l.Line(line)
	if !ok {
		return -1
	}
	at := position{line, 1, span.From}
	if l.last.line == line && l.last.column <= column {
		at = l.last
	}
	for ; at.column < column && at.offset < span.To; at.column++ {
		_, size := utf8.DecodeRune(l.text[at.offset:span.To])
		at.offset += size
	}
	l.last = at
	return at.offset
}

// Indentation returns the spaces and tabs at the start of a text.
func Indentation(text []byte) string {
	return string(text[:len(text)-len(bytes.TrimLeft(text, " \t"))])
}

// lineEnd returns the offset at which the line that contains at ends, before its "\n" or
// "\r\n".
func lineEnd(text []byte, at int) int {
	i := bytes.IndexByte(text[at:], '\n')
	if i < 0 {
		return len(text)
	}
	if end := at + i; end == 0 || text[end-1] != '\r' {
		return end
	}
	return at + i - 1
}

// nextLine returns the offset at which the line after the one that contains at begins.
func nextLine(text []byte, at int) int {
	if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}
