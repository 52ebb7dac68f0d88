// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package match

import "strings"

// Covers reports whether p matches every image that q matches. It is exact but
// for a q whose host is an IPv6 address without a port, which a kubelet takes
// for a class of characters: that is covered by itself and by * alone.
func (p Pattern) Covers(q Pattern) bool {
	if p.at.labels != q.at.labels || p.at.Port != q.at.Port || !strings.HasPrefix(fromSlash(q.at.Path), fromSlash(p.at.Path)) {
		return false
	}
	for wide, narrow, more := p.at.Host, q.at.Host, true; more; {
		var w, n string
		w, wide, _ = strings.Cut(wide, ".")
		n, narrow, more = strings.Cut(narrow, ".")
		if !labelCovers(w, n) {
			return false
		}
	}
	return true
}

// fromSlash is a path as that of an image, which has at least a slash.
func fromSlash(path string) string {
	if path == "" {
		return "/"
	}
	return path
}

// labelCovers reports whether one glob matches every text that another does.
// It does if it matches the other with each * as a text that nobody writes: what
// takes that in its place is a *, which takes any other too.
func labelCovers(wide, narrow string) bool {
	const nobodyWrites = "\x00"
	if strings.IndexByte(narrow, '[') >= 0 {
		return wide == narrow || Label(wide, nobodyWrites)
	}
	if wide == "*" || wide == narrow {
		return true
	}
	return Label(wide, strings.ReplaceAll(narrow, "*", nobodyWrites))
}
