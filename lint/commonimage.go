// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"strings"

	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/lint/internal/imagename"
)

// commonImage returns an image that both patterns match, or "" if there is none. a and b must each
// match at least one image.
func commonImage(a, b location.Location) string {
	path := longerOf(a.Path, b.Path)
	if a.Port != b.Port || !strings.HasPrefix(path, a.Path) || !strings.HasPrefix(path, b.Path) {
		return ""
	}
	at := location.Location{Host: commonHost(a.Host, b.Host), Port: a.Port, Path: path}
	switch {
	case at.Host == "":
		return ""
	case !imagename.IsDotlessHost(at) || imagename.IsRegistryHost(at):
	case location.MatchLabel(a.Host, "localhost") && location.MatchLabel(b.Host, "localhost"):
		at.Host = "localhost"
	default:
		at.Host = commonLabel(a.Host, b.Host, "A")
	}
	switch {
	case path == "":
		at.Path = "/app"
	case at.Host == "docker.io" && strings.Count(path, "/") == 1 && imagename.IsValidRepository(path[1:]):
		at.Path += "/app" // a single-component name would become library/name
	case !imagename.IsValidRepository(path[1:]):
		at.Path += "app"
	}
	return at.String()
}

// commonHost returns a host that both globs match, or "" if there is none.
func commonHost(a, b string) string {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	if !hostsIntersect(as, bs, new(int)) {
		return ""
	}
	for i := range as {
		as[i] = commonLabel(as[i], bs[i], "")
	}
	return strings.Join(as, ".")
}

// hostsIntersect reports whether any host matches both lists of labels. It begins with the last
// label, where hosts differ most often. Each comparison of two globs reduces the budget.
func hostsIntersect(a, b []string, budget *int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := len(a) - 1; i >= 0; i-- {
		if a[i] == b[i] {
			continue
		}
		if strings.Contains(a[i], "*") && strings.Contains(b[i], "*") {
			*budget -= globComparisonCost
		}
		if commonLabel(a[i], b[i], "") == "" {
			return false
		}
	}
	return true
}

// commonLabel returns a label that both globs match, or "" if there is none. Each glob must match
// at least one label of an image host. If both globs contain a *, the returned label contains the
// text of more.
func commonLabel(a, b, more string) string {
	if strings.Contains(a, "*") {
		a, b = b, a
	}
	if !strings.Contains(a, "*") {
		if !location.MatchLabel(b, a) {
			return ""
		}
		return a
	}
	headA, middleA, tailA := cutGlob(a)
	headB, middleB, tailB := cutGlob(b)
	head, tail := longerOf(headA, headB), longerOf(tailA, tailB)
	if !strings.HasPrefix(head, headA) || !strings.HasPrefix(head, headB) || !strings.HasSuffix(tail, tailA) || !strings.HasSuffix(tail, tailB) {
		return ""
	}
	const longest = 63 // maximum length of a DNS label
	for n := min(len(head), len(tail), longest); n > 0 && more == ""; n-- {
		if strings.HasSuffix(head, tail[:n]) && location.MatchLabel(a, head+tail[n:]) && location.MatchLabel(b, head+tail[n:]) {
			return head + tail[n:] // "us-docker" for us-* and *-docker
		}
	}
	// The * of each glob matches any text between head and tail.
	if !strings.Contains(middleA, middleB) {
		middleA += middleB
	}
	label := head + more + strings.ReplaceAll(middleA, "*", "") + tail
	if label == "" || label[0] == '-' {
		label = "a" + label
	}
	if label[len(label)-1] == '-' {
		label += "a"
	}
	return label
}

// cutGlob splits a glob into the text before its first *, the text from the first to the last *,
// and the text after the last *. The last * belongs to none of them.
func cutGlob(s string) (head, middle, tail string) {
	first, last := strings.IndexByte(s, '*'), strings.LastIndexByte(s, '*')
	return s[:first], s[first:last], s[last+1:]
}

func longerOf(a, b string) string {
	if len(a) >= len(b) {
		return a
	}
	return b
}
