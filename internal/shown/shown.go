// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package shown makes text and JSON fit to be shown: by a terminal, which obeys
// control characters, and as a command line that is copied into a shell.
package shown

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Lines escapes what a terminal would obey or could not show, so that a
// plugin's words cannot pass for ours. Lines remain lines: what prints them
// has to see to it that each is told from one of ours.
func Lines(s string) string {
	return escape(s, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) })
}

// Line is Lines for what stands on a line with something else: it ends
// neither the line nor its place in it.
func Line(s string) string {
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

// ShellPath is [ShellWord] of a path that stands where a flag may stand: one that
// begins like a flag does so no more.
func ShellPath(path string) string {
	if strings.HasPrefix(path, "-") {
		path = "./" + path
	}
	return ShellWord(path)
}

// ShellWord quotes s if a shell would not take it for one word, for a command
// line that is shown to be copied. What is not printable is written as bash,
// ksh and zsh read it.
func ShellWord(s string) string {
	switch {
	case s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,") == "":
		return s
	case Line(s) == s:
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder
	for _, c := range []byte(s) {
		switch {
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\%03o`, c)
		case c == '\'' || c == '\\':
			b.WriteString(`\` + string(c))
		default:
			b.WriteByte(c)
		}
	}
	return "$'" + b.String() + "'"
}
