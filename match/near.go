// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package match

import (
	"slices"
	"strings"
)

// kinship is how the domain of a pattern stands to that of an image.
type kinship int

const (
	stranger kinship = iota - 1 // another owner's
	anybody                     // the pattern has a glob where the owner's name stands
	relative                    // the owner's too, with another ending or name
	same
)

// The parts of [Mismatch.Near], each worth more than all behind it.
const (
	ofKin   = 1 << 24
	ofLabel = 1 << 12
	ofPort  = 1 << 11
	nearest = (int(same) + 1) * ofKin
)

// comparison is a pattern beside a repository that it does not match.
type comparison struct {
	pattern, at Location
	wants, has  []string // the labels of their hosts
	pairs       []int    // by label of the pattern: the image's that corresponds, or -1
	alike       int      // how well they correspond
	kin         kinship
}

func compare(pattern, at Location) *comparison {
	c := &comparison{pattern: pattern, at: at, wants: labels(pattern.Host), has: labels(at.Host)}
	c.pairs, c.alike = align(c.wants, c.has)
	c.kin = kinOf(c.wants, c.has)
	return c
}

func labels(host string) []string { return strings.Split(host, ".") }

func (c *comparison) near() int {
	n := int(c.kin)*ofKin + min(max(c.alike+ofLabel/2, 0), ofLabel-1)*ofLabel
	if c.pattern.Port == c.at.Port {
		n += ofPort
	}
	return n + min(len(commonPath(c.pattern.Path, c.at.Path)), ofPort-1)
}

// relatives reports whether the pattern may have been meant for the image.
func (c *comparison) relatives() bool { return c.kin >= relative || c.hostMatches() }

func (c *comparison) hostMatches() bool {
	return len(c.wants) == len(c.has) && !slices.ContainsFunc(c.pairs, func(j int) bool { return j < 0 }) && c.matching() == len(c.has)
}

func (c *comparison) matching() (n int) {
	for i, j := range c.pairs {
		if j >= 0 && Label(c.wants[i], c.has[j]) {
			n++
		}
	}
	return n
}

// mended is the pattern with what keeps it from matching replaced by what the
// image has.
func (c *comparison) mended() Location {
	l := c.at
	if !strings.Contains(l.Host, ":") {
		l.Host = strings.Join(c.mendedLabels(), ".")
	}
	if l.Path = c.pattern.Path; !strings.HasPrefix(c.at.Path, l.Path) {
		l.Path = mendedPath(l.Path, c.at.Path)
	}
	return l
}

func (c *comparison) mendedLabels() []string {
	if c.hostMatches() {
		return c.wants
	}
	mended := slices.Clone(c.has)
	owned := len(c.has) - len(domain(c.has))
	for i, j := range c.pairs {
		switch {
		case j < 0:
			continue
		case j < owned && Label(c.wants[i], c.has[j]): // a * in the owner's name is everybody
			mended[j] = c.wants[i]
		}
		// One label more than a pattern that begins with a * is a * too.
		if i == 0 && c.wants[i] == "*" && len(c.has) == len(c.wants)+1 && j > 0 && j <= owned && !slices.Contains(c.pairs, j-1) {
			mended[j-1] = "*"
		}
	}
	return mended
}

// mendedPath goes as deep into the image's path as the pattern's does.
func mendedPath(want, got string) string {
	// A glob, a tag or capitals: what stands before them was right.
	if i := strings.IndexAny(want, "*[:@"); i >= 0 && strings.HasPrefix(got, want[:i]) {
		if i == len("/") {
			return ""
		}
		return want[:i]
	}
	if lower := strings.ToLower(want); strings.HasPrefix(got, lower) {
		return lower
	}
	common := commonPath(want, got)
	segment, _, deeper := strings.Cut(got[min(len(common)+1, len(got)):], "/")
	if got = got[:min(len(common)+1, len(got))] + segment; deeper {
		got += "/"
	}
	return got
}

// commonPath returns the segments with which both paths begin.
func commonPath(a, b string) string {
	common := 0
	for i := 0; ; i++ {
		switch {
		case i == len(a) && i == len(b), i == len(a) && b[i] == '/', i == len(b) && a[i] == '/':
			return a[:i]
		case i >= len(a) || i >= len(b) || a[i] != b[i]:
			return a[:common]
		case a[i] == '/':
			common = i
		}
	}
}

// kinOf compares the domains in which the owners of two hosts have their names.
func kinOf(pattern, image []string) kinship {
	p, i := domain(pattern), domain(image)
	switch {
	case isAddress(image):
		return kinOfAddress(pattern, image)
	case slices.EqualFunc(p, i, strings.EqualFold):
		return same
	case ownerOf(p) != "" && ownerOf(p) == ownerOf(i), namesOwner(pattern, i):
		return relative
	case strings.Contains(strings.Join(p, "."), "*") && len(p) <= len(pattern):
		if slices.EqualFunc(p, image[max(0, len(image)-len(p)):], Label) {
			return anybody
		}
	}
	return stranger
}

func kinOfAddress(pattern, image []string) kinship {
	switch {
	case len(pattern) != len(image) || !Label(pattern[0], image[0]):
		return stranger
	case pattern[0] == image[0] && pattern[1] == image[1]:
		return same
	case pattern[0] == image[0]:
		return relative
	}
	return anybody
}

func isAddress(host []string) bool { return len(host) == 4 && isDigits(strings.Join(host, "")) }

// namesOwner reports whether the owner's name is among the last labels of a
// pattern, as in one that ends too early or goes on too long.
func namesOwner(pattern, domain []string) bool {
	if len(domain) < 2 {
		return false
	}
	at := slices.IndexFunc(pattern, func(s string) bool { return strings.EqualFold(s, domain[0]) })
	return at >= 0 && at >= len(pattern)-3 && (at > 0 || len(pattern) <= 2 || len(domain) == 3)
}

// domain returns the labels of a host in which its owner's name stands: the
// last two or, where a country has a second level, three. It needs no list of
// public suffixes: a wrong guess ranks a pattern for people, and no more.
func domain(host []string) []string {
	n := 2
	if l := len(host); l > 2 && len(host[l-1]) == 2 && secondLevel(host[l-2]) {
		n = 3
	}
	return host[max(0, len(host)-n):]
}

// secondLevel are the names below which countries register names.
func secondLevel(label string) bool {
	switch label {
	case "ac", "co", "com", "edu", "go", "gob", "gov", "gv", "ltd", "mil", "ne", "net", "or", "org", "plc":
		return true
	}
	return false
}

// ownerOf names those who have registries in several domains.
func ownerOf(domain []string) string {
	switch name := strings.ToLower(strings.Join(domain, ".")); name {
	case "amazonaws.com", "amazonaws.com.cn", "amazonaws.eu", "on.aws", "ecr.aws", "aws.com", "amazonwebservices.com.cn", "amazonwebservices.eu":
		return "Amazon"
	case "gcr.io", "pkg.dev":
		return "Google"
	case "docker.io", "docker.com":
		return "Docker"
	case "azurecr.io", "azurecr.cn", "azurecr.us", "azurecr.de", "microsoft.com":
		return "Microsoft"
	case "ghcr.io", "github.com":
		return "GitHub"
	}
	return ""
}

// maxAligned bounds the labels that are aligned. Names in the DNS have at most 127.
const maxAligned = 128

// align finds which labels of two hosts correspond, by the sequence that has
// the most alike, and how much that is.
func align(pattern, image []string) (pairs []int, alike int) {
	pairs = make([]int, len(pattern))
	for i := range pairs {
		pairs[i] = -1
	}
	if len(pattern) > maxAligned || len(image) > maxAligned {
		return pairs, 0
	}
	// best[i][j] is that of the labels before i and before j.
	best := make([][]int, len(pattern)+1)
	for i := range best {
		best[i] = make([]int, len(image)+1)
		for j := range best[i] {
			switch {
			case i == 0:
				best[i][j] = j * withoutPartner
			case j == 0:
				best[i][j] = i * withoutPartner
			default:
				best[i][j] = max(best[i-1][j-1]+likeness(pattern[i-1], image[j-1]), best[i-1][j]+withoutPartner, best[i][j-1]+withoutPartner)
			}
		}
	}
	for i, j := len(pattern), len(image); i > 0 && j > 0; {
		switch best[i][j] {
		case best[i-1][j-1] + likeness(pattern[i-1], image[j-1]):
			i, j = i-1, j-1
			pairs[i] = j
		case best[i-1][j] + withoutPartner:
			i--
		default:
			j--
		}
	}
	return pairs, best[len(pattern)][len(image)]
}

// withoutPartner is what a label counts that stands for itself.
const withoutPartner = -3

// likeness is what a label counts beside another.
func likeness(pattern, image string) int {
	switch {
	case pattern == image:
		return 6
	case strings.EqualFold(pattern, image):
		return 5
	case !Label(pattern, image):
		return -1
	case pattern == "*":
		return 2
	}
	return 4
}
