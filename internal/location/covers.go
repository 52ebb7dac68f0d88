// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package location

import "strings"

// Covers reports whether p matches every image that q matches. The result is exact, except
// if q's host is an IPv6 address without a port. The kubelet parses such a host as a
// character class. Covers then returns true only if the hosts are equal or p's host is *.
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

// pathOrRoot returns path, or "/" if path is empty, because an image's path is never
// shorter.
func pathOrRoot(path string) string {
	if path == "" {
		return "/"
	}
	return path
}

// labelCovers reports whether the glob wide matches every string that the glob narrow
// matches. It replaces each * of narrow with a byte that no pattern contains, and matches
// the result against wide. Only a * of wide can match that byte, and it would match any
// other text too.
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
