// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package diagnose

import (
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/location"
)

// relation compares the owners of the domains of a pattern and an image.
type relation int

const (
	unrelated  relation = iota - 1
	anyOwner            // the pattern has a glob in the owner's domain
	sameOwner           // another domain of the same owner
	sameDomain          // the same domain
)

// Weights of the parts of [Mismatch.Similarity]. Each exceeds the sum of the
// parts after it.
const (
	relationWeight = 1 << 24
	labelWeight    = 1 << 12
	portWeight     = 1 << 11
	maxLabelScore  = 1 << 10
	identical      = (int(sameDomain) + 1) * relationWeight
)

// comparison is a pattern and a repository that it does not match.
type comparison struct {
	pattern, image location.Location
	wants, has     []string // the labels of their hosts
	prefix, suffix int      // how many labels agree from the left and from the right
	relation       relation
}

func newComparison(pattern, image location.Location) *comparison {
	c := &comparison{pattern: pattern, image: image, wants: pattern.Labels(), has: image.Labels()}
	w, h := len(c.wants), len(c.has)
	for c.suffix < min(w, h) && agree(c.wants[w-1-c.suffix], c.has[h-1-c.suffix]) {
		c.suffix++
	}
	for c.prefix < min(w, h)-c.suffix && agree(c.wants[c.prefix], c.has[c.prefix]) {
		c.prefix++
	}
	// If labels are missing or in another order, a glob before the first difference may
	// stand for any label of the image.
	moved := w != h || c.prefix < w && slices.Contains(c.has, c.wants[c.prefix])
	for moved && c.prefix > 0 && strings.Contains(c.wants[c.prefix-1], "*") {
		c.prefix--
	}
	c.relation = relationOf(c.wants, c.has)
	return c
}

func agree(want, got string) bool {
	return location.MatchLabel(want, got) || strings.EqualFold(want, got)
}

func (c *comparison) similarity() int {
	score := min(len(c.wants), len(c.has)) - max(len(c.wants), len(c.has))
	for i, want := range c.wants {
		switch {
		case i >= c.prefix && i < len(c.wants)-c.suffix:
		case want == "*":
			score++
		case strings.Contains(want, "*"):
			score += 2
		default:
			score += 3
		}
	}
	n := int(c.relation)*relationWeight + (min(max(score, -maxLabelScore), maxLabelScore)+maxLabelScore)*labelWeight
	if c.pattern.Port == c.image.Port {
		n += portWeight
	}
	return n + min(len(commonPath(c.pattern.Path, c.image.Path)), portWeight-1)
}

// related reports whether the pattern was probably meant for the image.
func (c *comparison) related() bool { return c.relation >= sameOwner || c.hostMatches() }

func (c *comparison) hostMatches() bool { return slices.EqualFunc(c.wants, c.has, location.MatchLabel) }

// instead returns the pattern with the parts that do not match replaced by the
// image's.
func (c *comparison) instead() location.Location {
	l := c.image
	if !strings.Contains(l.Host, ":") {
		l.Host = strings.Join(c.insteadLabels(), ".")
	}
	if l.Path = c.pattern.Path; !strings.HasPrefix(c.image.Path, l.Path) {
		l.Path = insteadPath(l.Path, c.image.Path)
	}
	return l
}

// insteadLabels returns the image's labels, with globs of the pattern. It allows
// no glob in the owner's domain.
func (c *comparison) insteadLabels() []string {
	if c.hostMatches() {
		return c.wants
	}
	labels, longer := slices.Clone(c.has), len(c.has)-len(c.wants)
	below := len(c.has) - len(domain(c.has))
	for j := range below {
		i := j
		if j >= c.prefix {
			i = j - longer
		}
		if agrees := j < c.prefix || j >= len(c.has)-c.suffix; agrees && location.MatchLabel(c.wants[i], c.has[j]) {
			labels[j] = c.wants[i]
		}
	}
	if longer == 1 && below > 0 && c.suffix == len(c.wants) && c.wants[0] == "*" {
		labels[0] = "*"
	}
	return labels
}

// insteadPath returns a prefix of the image's path, as deep as the pattern's.
func insteadPath(want, got string) string {
	// A glob, tag or digest: keep what is before it.
	if i := strings.IndexAny(want, "*[:@"); i >= 0 && strings.HasPrefix(got, want[:i]) {
		if i == len("/") {
			return ""
		}
		return want[:i]
	}
	if lower := strings.ToLower(want); strings.HasPrefix(got, lower) {
		return lower
	}
	start := min(len(commonPath(want, got))+1, len(got))
	segment, _, deeper := strings.Cut(got[start:], "/")
	if deeper {
		segment += "/"
	}
	return got[:start] + segment
}

// commonPath returns the leading segments that two paths have in common.
func commonPath(a, b string) string {
	as, bs, n := strings.Split(a, "/"), strings.Split(b, "/"), 0
	for n < min(len(as), len(bs)) && as[n] == bs[n] {
		n++
	}
	return strings.Join(as[:n], "/")
}

func relationOf(pattern, image []string) relation {
	p, i := domain(pattern), domain(image)
	switch {
	case isAddress(image):
		return addressRelation(pattern, image)
	case slices.EqualFunc(p, i, strings.EqualFold):
		return sameDomain
	case haveSameOwner(p, i), containsOwner(pattern, i):
		return sameOwner
	case strings.Contains(strings.Join(p, "."), "*") && slices.EqualFunc(p, image[max(0, len(image)-len(p)):], location.MatchLabel):
		return anyOwner
	}
	return unrelated
}

func isAddress(host []string) bool {
	return len(host) == 4 && strings.Trim(strings.Join(host, ""), "0123456789") == ""
}

// addressRelation compares networks: the first two numbers of IPv4 addresses.
func addressRelation(pattern, image []string) relation {
	switch {
	case len(pattern) != len(image) || !location.MatchLabel(pattern[0], image[0]):
		return unrelated
	case pattern[0] == image[0] && pattern[1] == image[1]:
		return sameDomain
	case pattern[0] == image[0]:
		return sameOwner
	}
	return anyOwner
}

// containsOwner reports whether the owner's name is among the last labels of a
// pattern, as in one that is cut off or continues after the domain.
func containsOwner(pattern, domain []string) bool {
	if len(domain) < 2 {
		return false
	}
	at := slices.IndexFunc(pattern, func(s string) bool { return strings.EqualFold(s, domain[0]) })
	return at >= 0 && at >= len(pattern)-3 && (at > 0 || len(pattern) <= 2 || len(domain) == 3)
}

// secondLevel lists the names below which countries register domains.
var secondLevel = []string{"ac", "co", "com", "edu", "go", "gob", "gov", "gv", "ltd", "mil", "ne", "net", "or", "org", "plc"}

// domain returns the labels of the owner's domain: the last two or, below a
// country's second level, three. A wrong guess only affects the ranking, so a
// list of public suffixes is not needed.
func domain(host []string) []string {
	n := 2
	if l := len(host); l > 2 && len(host[l-1]) == 2 && slices.Contains(secondLevel, host[l-2]) {
		n = 3
	}
	return host[max(0, len(host)-n):]
}

// owners lists the domains of owners with registries in several domains.
var owners = [][]string{
	{"amazonaws.com", "amazonaws.com.cn", "amazonaws.eu", "on.aws", "ecr.aws", "aws.com", "amazonwebservices.com.cn", "amazonwebservices.eu"},
	{"gcr.io", "pkg.dev"},
	{"docker.io", "docker.com"},
	{"azurecr.io", "azurecr.cn", "azurecr.us", "azurecr.de", "microsoft.com"},
	{"ghcr.io", "github.com"},
}

func haveSameOwner(a, b []string) bool {
	x, y := strings.ToLower(strings.Join(a, ".")), strings.ToLower(strings.Join(b, "."))
	return slices.ContainsFunc(owners, func(domains []string) bool { return slices.Contains(domains, x) && slices.Contains(domains, y) })
}
