// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"strconv"
	"strings"
	"unicode"

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
		if !validLabel(label) {
			return label, true
		}
	}
	return "", false
}

// validLabel reports whether the host of some image has a label that the glob
// matches.
func validLabel(glob string) bool {
	_, err := match.Registry(strings.ReplaceAll(glob, "*", "a"))
	return err == nil
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

// dotless reports whether l has a host of one label and no port, which an
// image reference takes for the first part of a Docker Hub name. localhost,
// and names with capitals, are the exceptions.
func dotless(l match.Location) bool {
	return l.Host != "" && l.Port == "" && !strings.ContainsAny(l.Host, ".:[")
}

func hasCapital(s string) bool { return strings.ContainsFunc(s, unicode.IsUpper) }

func portPossible(port string) bool {
	n, err := strconv.Atoi(port)
	return port == "" || err == nil && 0 < n && n < 1<<16
}

// pathPossible reports whether path begins the path of some repository.
func pathPossible(path string) bool {
	return path == "" || path[0] == '/' && (validRepositoryPath(path[1:]) || validRepositoryPath(path[1:]+"a"))
}

// validRepositoryPath reports whether s is all that follows the host in the
// name of some image.
func validRepositoryPath(s string) bool {
	name := "registry.example/" + s
	repository, err := match.Repository(name)
	return err == nil && repository == name // neither tag nor digest is cut off
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
	switch {
	case at.Host == "":
		return ""
	case !dotless(at) || domainPossible(at):
	case match.Label(a.Host, "localhost") && match.Label(b.Host, "localhost"):
		at.Host = "localhost"
	default:
		at.Host = meetLabels(a.Host, b.Host, "A")
	}
	switch {
	case path == "":
		at.Path = "/app"
	case at.Host == "docker.io" && strings.Count(path, "/") == 1 && validRepositoryPath(path[1:]):
		at.Path += "/app" // a name of one part would become library/name
	case !validRepositoryPath(path[1:]):
		at.Path += "app"
	}
	return at.String()
}

// meetHosts returns a host that both globs match, or "".
func meetHosts(a, b string) string {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	if !hostsMeet(as, bs, new(int)) {
		return ""
	}
	for i := range as {
		as[i] = meetLabels(as[i], bs[i], "")
	}
	return strings.Join(as, ".")
}

// hostsMeet takes labels from the left and begins at the right, where hosts
// differ most often.
func hostsMeet(a, b []string, budget *int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := len(a) - 1; i >= 0; i-- {
		if a[i] == b[i] {
			continue
		}
		if strings.Contains(a[i], "*") && strings.Contains(b[i], "*") {
			*budget -= globCost
		}
		if meetLabels(a[i], b[i], "") == "" {
			return false
		}
	}
	return true
}

// meetLabels returns a label that both globs match, or "". Hosts of images
// must be able to have one that a matches, and one that b does. If both globs
// have a star, then more is part of it.
func meetLabels(a, b, more string) string {
	if strings.Contains(a, "*") {
		a, b = b, a
	}
	if !strings.Contains(a, "*") {
		if !match.Label(b, a) {
			return ""
		}
		return a
	}
	headA, middleA, tailA := cutGlob(a)
	headB, middleB, tailB := cutGlob(b)
	head, tail := longer(headA, headB), longer(tailA, tailB)
	if !strings.HasPrefix(head, headA) || !strings.HasPrefix(head, headB) || !strings.HasSuffix(tail, tailA) || !strings.HasSuffix(tail, tailB) {
		return ""
	}
	const longest = 63 // that DNS has
	for n := min(len(head), len(tail), longest); n > 0 && more == ""; n-- {
		if strings.HasSuffix(head, tail[:n]) && match.Label(a, head+tail[n:]) && match.Label(b, head+tail[n:]) {
			return head + tail[n:] // "us-docker" for us-* and *-docker
		}
	}
	// Whatever stands between head and tail, a star of each glob takes it.
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

// cutGlob returns what stands before the first star, from there to the last,
// and behind that.
func cutGlob(s string) (head, middle, tail string) {
	first, last := strings.IndexByte(s, '*'), strings.LastIndexByte(s, '*')
	return s[:first], s[first:last], s[last+1:]
}

func longer(a, b string) string {
	if len(a) > len(b) {
		return a
	}
	return b
}

// covers reports whether a matches every image that b matches. It may say no
// where that is hard to see.
func covers(a, b reach) bool {
	last := len(a.labels) - 1
	if last != len(b.labels)-1 || a.at.Port != b.at.Port || !strings.HasPrefix(b.at.Path, a.at.Path) {
		return false
	}
	if a.address || b.address {
		return a.at.Host == b.at.Host
	}
	for i, label := range a.labels {
		if !match.Label(label, b.fixed[i]) {
			return false
		}
	}
	return true
}
