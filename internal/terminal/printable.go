// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package terminal

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
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

// printable escapes what a terminal would obey or could not show, so that a
// plugin's words cannot pass for ours. Lines remain lines: what prints them
// has to see to it that each is told from one of ours.
func printable(s string) string {
	return escape(s, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) })
}

// inline is printable for what stands on a line with something else: it ends
// neither the line nor its place in it.
func inline(s string) string {
	return escape(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

func escape(s string, bad func(rune) bool) string {
	if strings.IndexFunc(s, bad) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if bad(r) || r == utf8.RuneError {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

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
