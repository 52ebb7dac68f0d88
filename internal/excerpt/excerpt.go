// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package excerpt shortens configuration values for messages. It hides the parts that may
// contain a misplaced secret: user information in a URL, and text after a missing quote. Do not
// pass values of args and env to it.
package excerpt

import (
	"strings"
	"unicode"
)

// TruncateValue returns at most 128 bytes of a value, without user information. It cuts the
// value at the first white space, because a value with a missing quote includes the lines after
// it.
func TruncateValue(value string) string {
	const most = 128
	value = RedactAddress(value)
	cut := strings.IndexFunc(value, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	if cut < 0 || cut > most {
		cut = min(len(value), most)
	}
	if cut == len(value) {
		return value
	}
	return strings.ToValidUTF8(value[:cut], "") + "…"
}

// RedactPattern hides the user information, query and fragment of a pattern.
func RedactPattern(s string) string {
	s = RedactAddress(s)
	if i := strings.IndexAny(s, "?#"); i >= 0 && i < len(s)-1 {
		s = s[:i+1] + "…"
	}
	return s
}

// RedactAddress hides the user information of a URL, image, registry or host, as in
// "https://user:password@registry.example". It keeps the digest of an image.
func RedactAddress(s string) string {
	scheme, rest := "", s
	if i := strings.Index(s, "://"); i >= 0 {
		scheme, rest = s[:i+len("://")], s[i+len("://"):]
	}
	end := strings.LastIndexByte(rest, '@')
	if end >= 0 && looksLikeDigest(rest[end+1:]) {
		end = strings.LastIndexByte(rest[:end], '@')
	}
	if end < 0 || scheme == "" && startsWithHost(rest[:end]) {
		return s
	}
	if strings.Contains(scheme, "@") {
		scheme = "" // "user:a://b@host" has no scheme
	}
	return scheme + "…" + rest[end:]
}

// looksLikeDigest reports whether s looks like an image digest.
func looksLikeDigest(s string) bool {
	algorithm, hex, _ := strings.Cut(s, ":")
	return (algorithm == "sha256" || algorithm == "sha384" || algorithm == "sha512") &&
		strings.Trim(hex, "0123456789abcdef") == ""
}

// startsWithHost reports whether s begins like an image with a registry: a host, an optional
// port and a slash.
func startsWithHost(s string) bool {
	host, _, found := strings.Cut(s, "/")
	_, port, _ := strings.Cut(host, ":")
	return host != "" && found && !strings.Contains(host, "@") && strings.Trim(port, "0123456789") == ""
}
