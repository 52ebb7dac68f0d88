// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package match

import (
	"path"
	"strings"
)

// Pattern is one entry of matchImages, or one key of an answer's auth,
// compiled by [Parse]. The zero value matches nothing. Patterns are values, and
// safe for concurrent use.
type Pattern struct {
	raw  string
	at   Location
	glob bool // the host has a * or a character class
}

// Parse compiles a pattern. It fails exactly where kubelet 1.37 does
// (ParseSchemelessURL in pkg/credentialprovider/keyring.go), whatever the Go
// version and GODEBUG of the program. The error does not repeat the pattern.
func Parse(s string) (Pattern, error) {
	at, err := ParseLocation(s)
	if err != nil {
		return Pattern{}, err
	}
	return Pattern{raw: s, at: at, glob: strings.ContainsAny(at.Host, "*[")}, nil
}

// Match reports whether p matches a normalised [Repository] such as
// "registry.example:5000/team/app", as the kubelet's URLsMatchStr does:
// the ports are equal, the hosts have the same number of labels and each
// label matches, and p's path is a string prefix of the repository's. A *
// stands for any text within one label, the empty one too, and case counts.
// Text that does not parse is not matched. Match allocates where
// [ParseLocation] does.
func (p Pattern) Match(repository string) bool {
	at, err := ParseLocation(repository)
	return err == nil && p.Matches(at)
}

// Location returns what p compares; that of the zero value matches nothing.
func (p Pattern) Location() Location { return p.at }

// String returns the pattern as it was written.
func (p Pattern) String() string { return p.raw }

// Matches is Match for a repository that is taken apart already.
func (p *Pattern) Matches(at Location) bool {
	// The zero Pattern has no labels, which nothing else has.
	if p.at.labels != at.labels || p.at.Port != at.Port ||
		// kubelet: a plain string prefix, so "host/team" matches "host/team-b/app".
		!strings.HasPrefix(at.Path, p.at.Path) {
		return false
	}
	if !p.glob {
		return p.at.Host == at.Host
	}
	// As many labels here as there.
	for wants, host, more := p.at.Host, at.Host, true; more; {
		var want, label string
		want, wants, more = strings.Cut(wants, ".")
		if label, host, _ = strings.Cut(host, "."); want != "*" && !Label(want, label) {
			return false
		}
	}
	return true
}

// Label reports whether a glob matches one label of a host, as filepath.Match
// does. A host has neither a backslash nor a question mark, so * is nearly all
// there is.
func Label(pattern, label string) bool {
	if strings.IndexByte(pattern, '[') >= 0 {
		// kubelet: an IPv6 address without a port keeps its brackets and is
		// taken for a character class; path.Match is filepath.Match here.
		ok, err := path.Match(pattern, label)
		return ok && err == nil
	}
	head, tail, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == label
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
