// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// splitWords splits as systemd does in a unit: at blanks that are not in quotes,
// which are dropped, with escapes as in C. Others are left as they are.
func splitWords(text string) []string { return split(text, unescape) }

// splitPlain splits the value of a variable: a backslash takes from the next
// character what it means.
func splitPlain(text string) []string {
	return split(text, func(text string) (string, int) { return text[1:2], 2 })
}

func split(text string, escape func(string) (string, int)) (list []string) {
	for {
		text = strings.TrimLeft(text, " \t\r\n")
		if text == "" {
			return list
		}
		var word string
		word, text = cutWord(text, escape)
		list = append(list, word)
	}
}

// cutWord cuts the first word off.
func cutWord(text string, escape func(string) (string, int)) (word, rest string) {
	var b strings.Builder
	quote := byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && i+1 < len(text):
			s, n := escape(text[i:])
			b.WriteString(s)
			i += n - 1
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0 && strings.IndexByte(" \t\r\n", c) >= 0:
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
	if text[1] == '"' || text[1] == '\'' {
		return text[1:2], 2
	}
	if r, _, rest, err := strconv.UnquoteChar(text, 0); err == nil {
		return string(r), len(text) - len(rest)
	}
	if text[1] == 's' {
		return " ", 2
	}
	return text[:2], 2
}

// components splits a path. ".." stays: what it means depends on the links before.
func components(path string) []string {
	path = path[len(filepath.VolumeName(path)):]
	return slices.DeleteFunc(strings.Split(filepath.ToSlash(path), "/"), func(s string) bool { return s == "" || s == "." })
}

// words splits an environment file into words. Quotes only
// ever surround whole lists of flags there, so they count as space.
func words(text string) []string {
	var list []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		line = strings.NewReplacer(`"`, " ", "'", " ", "=--", "= --").Replace(strings.TrimSuffix(line, `\`))
		list = append(list, strings.Fields(line)...)
	}
	return list
}
