// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package report

import (
	"bytes"
	"unicode/utf8"
)

// columns turns the columns of one file, which regcred counts in bytes, into
// columns that are counted in characters, as those who show files do.
type columns struct {
	lines [][]byte
	plain bool // all of it is ASCII
	// How far the line that was asked about last is counted: one may be a megabyte
	// long, and have thousands of findings.
	line, bytes, characters int
}

// columnsOf is for a file with these contents; nil for what is not UTF-8, or of
// which nothing is known.
func columnsOf(text []byte) *columns {
	if len(text) == 0 || !utf8.Valid(text) {
		return nil
	}
	plain := !bytes.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf })
	return &columns{lines: bytes.Split(text, []byte("\n")), plain: plain}
}

// inCharacters is the column in characters of one in bytes, both from 1; 0 if it is
// not known.
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
