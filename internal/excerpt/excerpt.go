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
// it is cut at the first blank. User information is hidden.
func Value(value string) string {
	const most = 128
	value = Address(value)
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
	s = Address(s)
	if i := strings.IndexAny(s, "?#"); i >= 0 && i < len(s)-1 {
		s = s[:i+1] + "…"
	}
	return s
}

// Address hides the user information of what may be a URL, or was meant to be an
// image, a registry or a host: "https://user:password@registry.example". The
// digest of an image stays, and so does what stands behind an @ in its place.
func Address(s string) string {
	scheme, rest := "", s
	if i := strings.Index(s, "://"); i >= 0 {
		scheme, rest = s[:i+len("://")], s[i+len("://"):]
	}
	end := strings.LastIndexByte(rest, '@')
	if end >= 0 && isDigest(rest[end+1:]) {
		end = strings.LastIndexByte(rest[:end], '@')
	}
	if end < 0 || scheme == "" && isHostPath(rest[:end]) {
		return s
	}
	if strings.Contains(scheme, "@") {
		scheme = "" // "user:a://b@host"
	}
	return scheme + "…" + rest[end:]
}

// isDigest reports whether s looks like what follows the @ of an image.
func isDigest(s string) bool {
	algorithm, hex, _ := strings.Cut(s, ":")
	return (algorithm == "sha256" || algorithm == "sha384" || algorithm == "sha512") &&
		strings.Trim(hex, "0123456789abcdef") == ""
}

// isHostPath reports whether s begins like an image: with a host that ends at a
// slash, as no user information does, and has at most a port.
func isHostPath(s string) bool {
	host, _, found := strings.Cut(s, "/")
	_, port, _ := strings.Cut(host, ":")
	return host != "" && found && !strings.Contains(host, "@") && strings.Trim(port, "0123456789") == ""
}
