// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package terminal

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Comment makes comments of lines, as YAML and shells have them.
func Comment(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString("# " + printable(line) + "\n")
	}
	return b.String()
}

// printable escapes what a terminal would obey or could not show, so that a
// plugin's words cannot pass for ours.
func printable(s string) string {
	if strings.IndexFunc(s, unprintable) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unprintable(r) || r == utf8.RuneError {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func unprintable(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }
