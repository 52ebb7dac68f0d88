// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package hostpattern

import (
	_ "embed"
	"strings"
)

// publicSuffixes contains the rules of the public suffix list, one per line and sorted. golang.org/x/net/publicsuffix
// has the same list, but imports net/http, which would make plugins without network access half as
// large again.
//
//go:embed suffixes.txt
var publicSuffixes string

// OpenSuffix returns the public suffix, such as co.uk or github.io, that follows a pattern's last *
// or contains the *. Anyone can register a name under it. OpenSuffix returns "" if there is none.
// name is a host pattern without a port.
func OpenSuffix(name string) string {
	name = strings.ToLower(name)
	at := strings.LastIndexByte(name, '*')
	if at < 0 {
		return ""
	}
	start := strings.LastIndexByte(name[:at], '.') + 1
	_, below, _ := strings.Cut(name[at:], ".")
	for _, s := range []string{below, name[start:]} {
		if isPublicSuffix(strings.ReplaceAll(s, "*", "x")) {
			return s
		}
	}
	return ""
}

// isPublicSuffix reports whether host is a public suffix in the list, by the rules of
// https://github.com/publicsuffix/list/wiki/Format.
func isPublicSuffix(host string) bool {
	_, parent, _ := strings.Cut(host, ".")
	return !hasRule("!"+host) && (hasRule(host) || parent != "" && hasRule("*."+parent))
}

// hasRule searches the sorted rules, which an empty line separates from the license.
func hasRule(rule string) bool {
	_, rules, _ := strings.Cut(publicSuffixes, "\n\n")
	for rules != "" {
		start := strings.LastIndexByte(rules[:len(rules)/2], '\n') + 1
		line, after, _ := strings.Cut(rules[start:], "\n")
		switch {
		case line == rule:
			return true
		case line < rule:
			rules = after
		default:
			rules = rules[:start]
		}
	}
	return false
}
