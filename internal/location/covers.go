// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package location

import "strings"

// Covers reports whether p matches every image that q matches. It is exact,
// except if q's host is an IPv6 address without a port, which the kubelet parses
// as a character class: only the same pattern and * cover that.
func (p Pattern) Covers(q Pattern) bool {
	if p.labels != q.labels || p.Port != q.Port || !strings.HasPrefix(pathOrRoot(q.Path), pathOrRoot(p.Path)) {
		return false
	}
	for wide, narrow, more := p.Host, q.Host, true; more; {
		var w, n string
		w, wide, _ = strings.Cut(wide, ".")
		n, narrow, more = strings.Cut(narrow, ".")
		if !labelCovers(w, n) {
			return false
		}
	}
	return true
}

// pathOrRoot returns path, or "/" if it is empty: the path of an image is never
// shorter than that.
func pathOrRoot(path string) string {
	if path == "" {
		return "/"
	}
	return path
}

// labelCovers reports whether one glob matches every text that another matches.
// It tests the wide glob against the narrow one with each * replaced by a byte
// that no pattern contains: only a * of the wide glob can match that byte, and
// it would match any other text too.
func labelCovers(wide, narrow string) bool {
	const unused = "\x00"
	if strings.IndexByte(narrow, '[') >= 0 {
		return wide == narrow || MatchLabel(wide, unused)
	}
	if wide == "*" || wide == narrow {
		return true
	}
	return MatchLabel(wide, strings.ReplaceAll(narrow, "*", unused))
}
