// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package location

import (
	"path"
	"strings"
)

// Pattern is a compiled entry of matchImages, or a compiled key of auth. The zero value
// matches nothing.
type Pattern struct {
	text string
	Location
	glob bool // the host contains a * or a character class
}

// ParsePattern compiles a pattern. It returns an error exactly if kubelet 1.37 does
// (ParseSchemelessURL in pkg/credentialprovider/keyring.go). The error does not contain
// the pattern.
func ParsePattern(s string) (Pattern, error) {
	l, err := Parse(s)
	if err != nil {
		return Pattern{}, err
	}
	return Pattern{s, l, strings.ContainsAny(l.Host, "*[")}, nil
}

// String returns the pattern as configured.
func (p Pattern) String() string { return p.text }

// Match reports whether p matches a repository, as the kubelet's URLsMatchStr
// does. It does not allocate.
func (p *Pattern) Match(at Location) bool {
	// The zero Pattern has no labels, and every parsed Location has at least one, so they
	// never match.
	if p.labels != at.labels || p.Port != at.Port ||
		// kubelet: uses a plain string prefix, so "host/team" matches
		// "host/team-b/app".
		!strings.HasPrefix(at.Path, p.Path) {
		return false
	}
	if !p.glob {
		return p.Host == at.Host
	}
	for wants, host, more := p.Host, at.Host, true; more; {
		var want, label string
		want, wants, more = strings.Cut(wants, ".")
		if label, host, _ = strings.Cut(host, "."); want != "*" && !MatchLabel(want, label) {
			return false
		}
	}
	return true
}

// MatchLabel reports whether a glob matches one label of a host, as filepath.Match
// does. A host contains no backslash or question mark, so * is the only wildcard apart
// from character classes.
func MatchLabel(glob, label string) bool {
	if strings.IndexByte(glob, '[') >= 0 {
		// kubelet: an IPv6 address without a port keeps its brackets and is parsed as a
		// character class. path.Match behaves like filepath.Match here.
		ok, err := path.Match(glob, label)
		return ok && err == nil
	}
	head, tail, star := strings.Cut(glob, "*")
	if !star {
		return glob == label
	}
	if !strings.HasPrefix(label, head) {
		return false
	}
	label = label[len(head):]
	for {
		middle, rest, more := strings.Cut(tail, "*")
		if !more {
			return strings.HasSuffix(label, tail)
		}
		i := strings.Index(label, middle)
		if i < 0 {
			return false
		}
		label, tail = label[i+len(middle):], rest
	}
}
