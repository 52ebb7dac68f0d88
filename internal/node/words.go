// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"os"
	"strconv"
	"strings"
)

// splitWords splits as systemd does: at blanks that are not in quotes, which are
// dropped, with escapes as in C.
func splitWords(text string) (list []string) {
	for {
		text = strings.TrimLeft(text, " \t\r\n")
		if text == "" {
			return list
		}
		var word string
		word, text = cutWord(text, " \t\r\n")
		list = append(list, word)
	}
}

// unquoteValue is a value of an environment file: one word, blanks and all.
func unquoteValue(text string) string {
	word, _ := cutWord(text, "")
	return word
}

// cutWord cuts the first word off, which ends at one of these characters.
func cutWord(text, ends string) (word, rest string) {
	var b strings.Builder
	quote := byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && i+1 < len(text):
			s, n := unescape(text[i:])
			b.WriteString(s)
			i += n - 1
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0 && strings.IndexByte(ends, c) >= 0:
			return b.String(), text[i:]
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}

// unescape returns what an escape at the start of text stands for, and how long
// it is.
func unescape(text string) (string, int) {
	if r, _, rest, err := strconv.UnquoteChar(text, 0); err == nil {
		return string(r), len(text) - len(rest)
	}
	if text[1] == 's' {
		return " ", 2
	}
	return text[1:2], 2
}

// readDir lists the names in a directory.
func readDir(name string) (names []string, err error) {
	entries, err := os.ReadDir(name)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}
