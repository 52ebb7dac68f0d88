// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"
)

// toUTF8 returns a file as UTF-8, without changing one that has no mark of
// UTF-16 at its begin. Both are YAML.
func toUTF8(data []byte) []byte {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")):
		order = binary.LittleEndian
	case bytes.HasPrefix(data, []byte("\xfe\xff")):
		order = binary.BigEndian
	default:
		return data
	}
	units := make([]uint16, len(data)/2-1)
	for i := range units {
		units[i] = order.Uint16(data[2*i+2:])
	}
	return []byte(string(utf16.Decode(units)))
}

// cutLine returns the first line of a text, without its end, and the rest. The
// line ends are those of YAML 1.1, which are more than an editor shows.
func cutLine(text []byte) (line, rest []byte) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\n':
			return text[:i], text[i+1:]
		case c == '\r' && i+1 < len(text) && text[i+1] == '\n':
			return text[:i], text[i+2:]
		case c == '\r':
			return text[:i], text[i+1:]
		case c < utf8.RuneSelf:
		case bytes.HasPrefix(text[i:], []byte("\u0085")):
			return text[:i], text[i+2:]
		case bytes.HasPrefix(text[i:], []byte("\u2028")), bytes.HasPrefix(text[i:], []byte("\u2029")):
			return text[:i], text[i+3:]
		}
	}
	return text, nil
}

// lineStarts returns where the lines of a text begin.
func lineStarts(text []byte) []int {
	starts := []int{0}
	for rest := text; ; {
		line, after := cutLine(rest)
		if len(line) == len(rest) {
			return starts
		}
		rest = after
		starts = append(starts, len(text)-len(rest))
	}
}

// firstDocument returns the part of a text that is its first YAML document,
// with what may stand before it.
func firstDocument(text []byte) []byte {
	end, _, _ := documentEnd(text)
	return text[:end]
}

// documentEnd returns where the first document of a text ends, the number of the
// line that ends it, and whether anything but comments follows.
//
// A line that begins with three dashes or dots, alone or with a blank behind
// them, is a mark wherever it stands: no value goes on over it. So it is found
// without a parser, of which no two agree.
func documentEnd(text []byte) (end, line int, more bool) {
	begun := false
	end = len(text)
	rest := bytes.TrimPrefix(text, []byte("\ufeff"))
	for number := 1; len(rest) > 0; number++ {
		start := len(text) - len(rest)
		var content []byte
		content, rest = cutLine(rest)
		if isMark(content) {
			if begun && line == 0 {
				end, line = start, number
			}
			// What is nothing but a mark is an empty document: --- twice are two.
			begun = begun || content[0] == '-'
			content = content[3:]
		}
		content = bytes.TrimLeft(content, " \t\ufeff")
		if len(content) == 0 || content[0] == '#' || content[0] == '%' && (!begun || line > 0) {
			continue
		}
		if line > 0 {
			return end, line, true
		}
		begun = true
	}
	return end, line, false
}

func isMark(line []byte) bool {
	return (bytes.HasPrefix(line, []byte("---")) || bytes.HasPrefix(line, []byte("..."))) &&
		(len(line) == 3 || line[3] == ' ' || line[3] == '\t')
}
