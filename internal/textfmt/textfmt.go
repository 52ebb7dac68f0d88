// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package textfmt formats text and JSON for a terminal, and quotes words for a
// shell.
package textfmt

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// EscapeLines escapes non-printable characters, including control characters, except tabs and line
// feeds. The caller must indent or prefix the lines, so that a plugin's output does not look like
// regcred's.
func EscapeLines(s string) string {
	return escapeFunc(s, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) })
}

// EscapeLine escapes all non-printable characters, including tabs and line feeds.
func EscapeLine(s string) string {
	return escapeFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

func escapeFunc(s string, bad func(rune) bool) string {
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

// QuoteShellPath quotes a path like [QuoteShellWord]. It adds the prefix "./" to a path that
// begins with -, so that the path is not parsed as a flag.
func QuoteShellPath(path string) string {
	if strings.HasPrefix(path, "-") {
		path = "./" + path
	}
	return QuoteShellWord(path)
}

// QuoteShellWord quotes s for use in a command line that users copy. Non-printable
// characters are escaped for bash, ksh and zsh.
func QuoteShellWord(s string) string {
	switch {
	case s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,") == "":
		return s
	case EscapeLine(s) == s:
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
