// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package terminal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/regcred/regcred/internal/shown"
)

// Comment makes comments of lines, as YAML and shells have them.
func Comment(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString("# " + inline(line) + "\n")
	}
	return b.String()
}

// Printable reports whether s can stand in a line of text as it is: it ends no
// line, and a terminal obeys nothing of it.
func Printable(s string) bool { return inline(s) == s }

// PrintableLines reports the same of lines, or of a document.
func PrintableLines(s string) bool { return printable(s) == s }

// printable and inline are short for what all that is printed goes through.
func printable(s string) string { return shown.Lines(s) }
func inline(s string) string    { return shown.Line(s) }

// escapeJSON escapes in a JSON document what JSON lets stand although a
// terminal obeys it: DEL, C1 controls, characters that turn the direction of
// text, separators of lines. They can only be in strings, whose values remain.
func escapeJSON(document []byte) []byte {
	var b []byte
	for rest := document; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r < 0x7f || unicode.IsPrint(r):
			b = append(b, rest[:n]...)
		case r > 0xffff:
			r -= 0x10000
			b = fmt.Appendf(b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
		rest = rest[n:]
	}
	return b
}
