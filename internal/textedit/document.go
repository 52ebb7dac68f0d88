// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package textedit

import (
	"bytes"
	"encoding/binary"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// ToUTF8 converts UTF-16 text with a byte order mark to UTF-8. YAML allows UTF-16. Other text
// is returned unchanged.
func ToUTF8(data []byte) []byte {
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

// CutLine returns the first line of a text without its line ending, and the rest. It accepts
// all line endings of YAML 1.1, including some that editors do not show.
func CutLine(text []byte) (line, rest []byte) {
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

// LineStarts returns the offset of each line of a text.
func LineStarts(text []byte) []int {
	starts := []int{0}
	for rest := text; ; {
		line, after := CutLine(rest)
		if len(line) == len(rest) {
			return starts
		}
		rest = after
		starts = append(starts, len(text)-len(rest))
	}
}

// KubeletDocument returns the part of a configuration file that the kubelet decodes, in UTF-8:
// the whole file if it is JSON, and otherwise the first YAML document. next is the line of the
// marker before the second document, which the kubelet ignores. It is 0 if there is no second
// document.
func KubeletDocument(file []byte) (text []byte, next int) {
	if IsJSON(file) {
		return file, 0
	}
	return FirstDocument(ToUTF8(file))
}

// IsJSON reports whether the kubelet parses a file as JSON and not as YAML.
//
// kubelet: it never parses a file that begins with a brace as YAML.
func IsJSON(file []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeftFunc(file, unicode.IsSpace), []byte("{"))
}

// FirstDocument returns the first YAML document of a UTF-8 text. See [KubeletDocument] for
// next.
//
// FirstDocument does not need a YAML parser, and parsers find different documents. A line that
// begins with --- or ... followed by a blank or the line end is always a document marker,
// because values cannot contain such a line.
func FirstDocument(text []byte) (document []byte, next int) {
	begun, line := false, 0
	end := len(text)
	rest := bytes.TrimPrefix(text, []byte("\ufeff"))
	for number := 1; len(rest) > 0; number++ {
		start := len(text) - len(rest)
		var content []byte
		content, rest = CutLine(rest)
		if isDocumentMarker(content) {
			if begun && line == 0 {
				end, line = start, number
			}
			// The marker "---" begins a document, which may be empty.
			begun = begun || content[0] == '-'
			content = content[3:]
		}
		content = bytes.TrimLeft(content, " \t\ufeff")
		if len(content) == 0 || content[0] == '#' || content[0] == '%' && (!begun || line > 0) {
			continue
		}
		if line > 0 {
			return text[:end], line
		}
		begun = true
	}
	return text[:end], 0
}

func isDocumentMarker(line []byte) bool {
	return (bytes.HasPrefix(line, []byte("---")) || bytes.HasPrefix(line, []byte("..."))) &&
		(len(line) == 3 || line[3] == ' ' || line[3] == '\t')
}
