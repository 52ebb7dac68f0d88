// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package excerpt takes from text of a configuration as much as a message may
// show. It does not know which values are secrets: those of args and env are
// shown to nobody. It stands between the others and secrets that have gone
// astray: after a missing quote, or in a URL.
package excerpt

import (
	"strings"
	"unicode"
)

// Value is as much of a value as an error shows. After a missing quote a
// value may run on over the lines that follow, secrets among them, so that
// it is cut at the first blank.
func Value(value string) string {
	const most = 128
	cut := strings.IndexFunc(value, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	if cut < 0 || cut > most {
		cut = min(len(value), most)
	}
	if cut == len(value) {
		return value
	}
	return strings.ToValidUTF8(value[:cut], "") + "…"
}

// Pattern hides what may be a secret: user information, query, fragment.
func Pattern(s string) string {
	if i := strings.LastIndexByte(s, '@'); i >= 0 && !strings.HasPrefix(s[i:], "@sha256") && !strings.HasPrefix(s[i:], "@sha512") {
		scheme, _, ok := strings.Cut(s[:i], "://")
		if s = "…" + s[i:]; ok {
			s = scheme + "://" + s
		}
	}
	if i := strings.IndexAny(s, "?#"); i >= 0 && i < len(s)-1 {
		s = s[:i+1] + "…"
	}
	return s
}
