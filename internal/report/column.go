// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package report

import (
	"bytes"
	"unicode/utf8"
)

// columns converts columns of a file from bytes, as in findings, to characters, as in
// SARIF.
type columns struct {
	lines [][]byte
	plain bool // the file is ASCII
	// Progress in the current line, because a long line can have thousands of findings.
	line, bytes, characters int
}

// columnsOf returns the columns of a file. It returns nil if the text is empty or not
// UTF-8.
func columnsOf(text []byte) *columns {
	if len(text) == 0 || !utf8.Valid(text) {
		return nil
	}
	plain := !bytes.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf })
	return &columns{lines: bytes.Split(text, []byte("\n")), plain: plain}
}

// inCharacters converts a column, from 1. It returns 0 for an unknown position.
func (c *columns) inCharacters(line, column int) int {
	switch {
	case c == nil || line < 1 || line > len(c.lines) || column < 1 || column > len(c.lines[line-1])+1:
		return 0
	case c.plain:
		return column
	case line != c.line || column-1 < c.bytes:
		c.line, c.bytes, c.characters = line, 0, 0
	}
	c.characters += utf8.RuneCount(c.lines[line-1][c.bytes : column-1])
	c.bytes = column - 1
	return c.characters + 1
}
