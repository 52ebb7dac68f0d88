// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"strconv"
	"strings"

	"github.com/regcred/regcred/match"
)

// What patterns can match at all, decided on the patterns rather than on
// examples. The language of images is that of distribution/reference: labels
// of letters, digits and inner hyphens; lower-case path components.

// matchable reports whether some image matches l.
func matchable(l match.Location) bool {
	_, bad := badLabel(l)
	return !bad && domainPossible(l) && portPossible(l.Port) && pathPossible(l.Path)
}

// badLabel returns the first label of l's host, if there is one, that no host
// of an image can have.
func badLabel(l match.Location) (label string, bad bool) {
	if strings.ContainsAny(l.Host, ":[") {
		return l.Host, l.Port == "" || strings.Trim(l.Host, "0123456789abcdefABCDEF:") != ""
	}
	for label := range strings.SplitSeq(l.Host, ".") {
		if _, ok := meetLabels(label, label, false); !ok {
			return label, true
		}
	}
	return "", false
}

// domainPossible reports whether an image reference takes l's host for one:
// it has a dot, a port, capitals, or is localhost. index.docker.io becomes
// docker.io before anything is compared.
func domainPossible(l match.Location) bool {
	if l.Host == "index.docker.io" && l.Port == "" {
		return false
	}
	if !dotless(l) || match.Label(l.Host, "localhost") {
		return true
	}
	return strings.Contains(l.Host, "*") || hasCapital(l.Host)
}

func hasCapital(s string) bool {
	for i := range len(s) {
		if isUpper(s[i]) {
			return true
		}
	}
	return false
}

func portPossible(port string) bool {
	n, err := strconv.Atoi(port)
	return port == "" || err == nil && 0 < n && n < 1<<16
}

// pathPossible reports whether path begins the path of some repository.
func pathPossible(path string) bool {
	return path == "" || path[0] == '/' && (validRepositoryPath(path[1:]) || validRepositoryPath(path[1:]+"a"))
}

// validRepositoryPath accepts components of lower-case letters and digits,
// joined by one dot, one or two underscores, or hyphens.
func validRepositoryPath(s string) bool {
	separator := "/" // what stands since the last letter or digit
	for i := range len(s) {
		switch c := s[i]; {
		case isLower(c) || isDigit(c):
			separator = ""
		case separator == "" && (c == '/' || c == '.' || c == '_' || c == '-'),
			separator == "_" && c == '_',
			separator != "" && strings.Trim(separator, "-") == "" && c == '-':
			separator += s[i : i+1]
		default:
			return false
		}
	}
	return separator == ""
}

// maxLabelProduct bounds the work of meetLabels. Longer labels, which DNS does
// not have, count as not meeting.
const maxLabelProduct = 1 << 14

// meetLabels returns a short label that both globs match and that the host of
// an image can have; with a capital letter in it, if so asked.
func meetLabels(a, b string, capital bool) (witness string, ok bool) {
	switch {
	case !strings.Contains(a, "*"):
		if ok = validLabel(a) && match.Label(b, a) && (!capital || hasCapital(a)); ok {
			witness = a
		}
		return witness, ok
	case !strings.Contains(b, "*"):
		return meetLabels(b, a, capital)
	case len(a)*len(b) > maxLabelProduct:
		return "", false
	}
	return meetGlobs(a, b, capital)
}

// pair is a position in two globs, and what matters of the label so far.
type pair struct {
	i, j    int
	begun   bool // it is not empty
	edge    bool // it ends in a hyphen
	capital bool // it has a capital, or need not
}

// meetGlobs walks both globs side by side, breadth first, so that the first
// label found is a shortest one. Where both have a star, a letter stands for
// whatever could be there.
func meetGlobs(a, b string, capital bool) (string, bool) {
	start := pair{capital: !capital}
	labels := map[pair]string{start: ""}
	for queue := []pair{start}; len(queue) > 0; queue = queue[1:] {
		p := queue[0]
		if p.i == len(a) && p.j == len(b) && p.begun && !p.edge && p.capital {
			return labels[p], true
		}
		push := func(next pair, add string) {
			if _, seen := labels[next]; !seen {
				labels[next] = labels[p] + add
				queue = append(queue, next)
			}
		}
		for _, c := range nextBytes(a[p.i:], b[p.j:]) {
			next := pair{p.i, p.j, true, c == '-', p.capital || isUpper(c)}
			if a[p.i] != '*' {
				next.i++
			}
			if b[p.j] != '*' {
				next.j++
			}
			if labelByte(c) && (c != '-' || p.begun) {
				push(next, string(c))
			}
		}
		if strings.HasPrefix(a[p.i:], "*") {
			next := p
			next.i++
			push(next, "")
		}
		if strings.HasPrefix(b[p.j:], "*") {
			next := p
			next.j++
			push(next, "")
		}
	}
	return "", false
}

// nextBytes returns the bytes with which both globs can go on.
func nextBytes(a, b string) []byte {
	switch {
	case a == "" || b == "":
		return nil
	case a[0] == '*' && b[0] == '*':
		return []byte("aA")
	case a[0] == '*' || a[0] == b[0]:
		return []byte{b[0]}
	case b[0] == '*':
		return []byte{a[0]}
	}
	return nil
}

func labelByte(c byte) bool { return isLower(c) || isUpper(c) || isDigit(c) || c == '-' }

func validLabel(s string) bool {
	for i := range len(s) {
		if !labelByte(s[i]) {
			return false
		}
	}
	return s != "" && s[0] != '-' && s[len(s)-1] != '-'
}

// exampleImage returns an image that both patterns match, or "". Both must be
// matchable.
func exampleImage(a, b match.Location) string {
	path := a.Path
	if len(b.Path) > len(a.Path) {
		path = b.Path
	}
	if a.Port != b.Port || !strings.HasPrefix(path, a.Path) || !strings.HasPrefix(path, b.Path) {
		return ""
	}
	at := match.Location{Host: meetHosts(a.Host, b.Host), Port: a.Port, Path: path}
	if dotless(a) && dotless(b) {
		at.Host = meetDotless(a.Host, b.Host)
	}
	switch {
	case at.Host == "":
		return ""
	case path == "":
		at.Path = "/app"
	case at.Host == "docker.io" && strings.Count(path, "/") == 1 && validRepositoryPath(path[1:]):
		at.Path += "/app" // a name of one part would become library/name
	case !validRepositoryPath(path[1:]):
		at.Path += "app"
	}
	return text(at)
}

// mayMeet is the part of meetHosts that needs no memory and settles nearly
// all pairs. It takes labels from the left and begins at the right, where
// hosts differ most often.
func mayMeet(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := len(a) - 1; i >= 0; i-- {
		if a[i] != b[i] && !labelsMayMeet(a[i], b[i]) {
			return false
		}
	}
	return true
}

func labelsMayMeet(a, b string) bool {
	starA, starB := strings.Contains(a, "*"), strings.Contains(b, "*")
	return starA && starB || starA && match.Label(a, b) || starB && match.Label(b, a)
}

// meetHosts returns a host that both globs match, or "".
func meetHosts(a, b string) string {
	if a == b && strings.ContainsAny(a, ":[") {
		return a
	}
	al, bl := strings.Split(a, "."), strings.Split(b, ".")
	if !mayMeet(al, bl) {
		return ""
	}
	for i := range al {
		label, ok := meetLabels(al[i], bl[i], false)
		if !ok {
			return ""
		}
		al[i] = label
	}
	return strings.Join(al, ".")
}

// meetDotless is meetHosts for hosts without dot and port, among which only
// localhost and those with capitals are hosts.
func meetDotless(a, b string) string {
	if match.Label(a, "localhost") && match.Label(b, "localhost") {
		return "localhost"
	}
	label, _ := meetLabels(a, b, true)
	return label
}

// covers reports whether a matches every image that b matches. It may say no
// where that is hard to see.
func covers(a, b match.Location) bool {
	if a.Port != b.Port || !strings.HasPrefix(b.Path, a.Path) || strings.Count(a.Host, ".") != strings.Count(b.Host, ".") {
		return false
	}
	if strings.ContainsAny(a.Host+b.Host, ":[") {
		return a.Host == b.Host
	}
	bl := strings.Split(b.Host, ".")
	for i, label := range strings.Split(a.Host, ".") {
		// A star of b is a byte that only a star of a can take.
		if !match.Label(label, strings.ReplaceAll(bl[i], "*", "\x00")) {
			return false
		}
	}
	return true
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// dotless reports whether l has a host of one label and no port, which an
// image reference takes for the first part of a Docker Hub name. localhost,
// and names with capitals, are the exceptions.
func dotless(l match.Location) bool {
	return l.Host != "" && l.Port == "" && !strings.ContainsAny(l.Host, ".:[")
}

// text is l as a pattern.
func text(l match.Location) string {
	host := l.Host
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		host = "[" + host + "]"
	}
	if l.Port != "" {
		host += ":" + l.Port
	}
	return host + l.Path
}
