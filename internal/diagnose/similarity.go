// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package diagnose

import (
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/internal/spelling"
)

// domainRelation compares the owners of a pattern's and an image's domain.
type domainRelation int

const (
	relationUnrelated  domainRelation = iota - 1
	relationAnyOwner                  // the pattern has a glob in the owner's domain
	relationSameOwner                 // different domains of the same owner
	relationSameDomain                // the same domain
)

// Weights of the parts of [Mismatch.Similarity]. Each exceeds the sum of the
// parts after it.
const (
	relationWeight = 1 << 24
	labelWeight    = 1 << 12
	portWeight     = 1 << 11
	maxLabelScore  = 1 << 10
	maxSimilarity  = (int(relationSameDomain) + 1) * relationWeight
)

// patternComparison is a pattern and a repository that it does not match.
type patternComparison struct {
	pattern, image                       location.Location
	patternLabels, imageLabels           []string // the labels of their hosts
	equalPrefixLabels, equalSuffixLabels int      // number of labels that agree, from the left and from the right
	relation                             domainRelation

	correctedLabels []string // the pattern's labels after the one edit after which the host matches; nil if no edit suffices
}

func newPatternComparison(pattern, image location.Location) *patternComparison {
	c := &patternComparison{pattern: pattern, image: image, patternLabels: pattern.Labels(), imageLabels: image.Labels()}
	w, h := len(c.patternLabels), len(c.imageLabels)
	for c.equalSuffixLabels < min(w, h) && sameLabel(c.patternLabels[w-1-c.equalSuffixLabels], c.imageLabels[h-1-c.equalSuffixLabels]) {
		c.equalSuffixLabels++
	}
	for c.equalPrefixLabels < min(w, h)-c.equalSuffixLabels && sameLabel(c.patternLabels[c.equalPrefixLabels], c.imageLabels[c.equalPrefixLabels]) {
		c.equalPrefixLabels++
	}
	// If labels are missing or in a different order, a glob before the first difference
	// may stand for any label of the image.
	moved := w != h || c.equalPrefixLabels < w && slices.Contains(c.imageLabels, c.patternLabels[c.equalPrefixLabels])
	for moved && c.equalPrefixLabels > 0 && strings.Contains(c.patternLabels[c.equalPrefixLabels-1], "*") {
		c.equalPrefixLabels--
	}
	c.relation = relationBetween(c.patternLabels, c.imageLabels)
	if c.correctedLabels = c.correctLabels(); c.correctedLabels != nil && c.relation < relationSameOwner && pattern.Port == image.Port && strings.HasPrefix(image.Path, pattern.Path) {
		c.relation = relationSameOwner // the owner's name is misspelled
	}
	return c
}

// correctLabels returns the pattern's labels after the one edit after which the host matches. It
// returns nil if there is no such edit, or if the two names probably belong to different hosts.
func (c *patternComparison) correctLabels() []string {
	if len(c.patternLabels) != len(c.imageLabels) {
		if !strings.Contains(c.pattern.Host, "*") && len(c.imageLabels) > 1 && len(c.image.Host) > 8 && spelling.Distance(c.pattern.Host, c.image.Host) == 1 {
			return c.imageLabels // a dot is missing, or there is an extra one
		}
		return nil
	}
	wrong := -1
	for i, want := range c.patternLabels {
		switch {
		case location.MatchLabel(want, c.imageLabels[i]):
		case wrong >= 0:
			return nil
		default:
			wrong = i
		}
	}
	if wrong < 0 {
		return nil
	}
	least := 4 // ghcr.io is not a misspelled gcr.io
	if wrong > 0 && wrong == len(c.patternLabels)-1 {
		least = 3 // but .con is a misspelled .com
	}
	want := c.patternLabels[wrong]
	label := correctLabel(want, c.imageLabels[wrong], least)
	if label == "" || strings.Contains(want, "*") && slices.Contains(registryWords, strings.Trim(want, "*-")) {
		return nil
	}
	labels := slices.Clone(c.patternLabels)
	labels[wrong] = label
	return labels
}

// correctLabel returns a pattern's label after the one edit after which it matches got. It returns ""
// if no edit suffices, if the difference is a digit, or if it is in a word with fewer than least letters.
func correctLabel(want, got string, least int) string {
	withoutDigits := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return -1
			}
			return r
		}, s)
	}
	if !strings.Contains(want, "*") {
		a, b := strings.Split(want, "-"), strings.Split(got, "-")
		if spelling.Distance(want, got) != 1 || withoutDigits(want) == withoutDigits(got) || min(len(want), len(got)) < least {
			return ""
		}
		for i := range a {
			if len(a) == len(b) && a[i] != b[i] && min(len(a[i]), len(b[i])) < least {
				return ""
			}
		}
		return got
	}
	if len(withoutDigits(strings.ReplaceAll(want, "*", ""))) < least || len(want)+len(got) > 128 {
		return ""
	}
	for i := range want {
		if want[i] == '*' {
			continue
		}
		if i+1 < len(want) && want[i+1] != '*' {
			if swapped := want[:i] + want[i+1:i+2] + want[i:i+1] + want[i+2:]; location.MatchLabel(swapped, got) {
				return swapped
			}
		}
		for _, letter := range got {
			if letter < 'a' || letter > 'z' {
				continue
			}
			for _, edited := range []string{want[:i] + string(letter) + want[i+1:], want[:i] + string(letter) + want[i:], want[:i+1] + string(letter) + want[i+1:]} {
				if location.MatchLabel(edited, got) {
					return edited
				}
			}
		}
		if shorter := want[:i] + want[i+1:]; want[i] > '9' && location.MatchLabel(shorter, got) {
			return shorter
		}
	}
	return ""
}

// imageIsMisspelled reports whether the edit should be made in the image instead of the pattern: the
// pattern's label is a word that registries' names contain, and the image's is not.
func (c *patternComparison) imageIsMisspelled() bool {
	if c.correctedLabels == nil || len(c.patternLabels) != len(c.imageLabels) {
		return false
	}
	for i, want := range c.patternLabels {
		if !location.MatchLabel(want, c.imageLabels[i]) {
			return slices.Contains(registryWords, want) && !slices.Contains(registryWords, c.imageLabels[i])
		}
	}
	return false
}

// registryWords lists words in the names of registries' hosts.
var registryWords = []string{
	"amazonaws", "artifactory", "artifacts", "azurecr", "cloud", "cluster", "com", "container", "containers", "corp", "docker", "example", "ghcr", "github",
	"gitlab", "google", "googleapis", "harbor", "icr", "images", "internal", "jfrog", "local", "localhost", "microsoft", "mirror", "net", "nexus", "nvcr",
	"oci", "org", "public", "quay", "registry", "repo",
}

func sameLabel(want, got string) bool {
	return location.MatchLabel(want, got) || strings.EqualFold(want, got)
}

func (c *patternComparison) similarityRank() int {
	score := min(len(c.patternLabels), len(c.imageLabels)) - max(len(c.patternLabels), len(c.imageLabels))
	for i, want := range c.patternLabels {
		switch {
		case i >= c.equalPrefixLabels && i < len(c.patternLabels)-c.equalSuffixLabels:
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

// isLikelyIntended reports whether the pattern was probably meant for the image.
func (c *patternComparison) isLikelyIntended() bool {
	return c.relation >= relationSameOwner || c.hostMatches()
}

func (c *patternComparison) hostMatches() bool {
	return slices.EqualFunc(c.patternLabels, c.imageLabels, location.MatchLabel)
}

// suggestedPattern returns the pattern with its non-matching parts replaced by those parts
// of the image.
func (c *patternComparison) suggestedPattern() location.Location {
	l := c.image
	if !strings.Contains(l.Host, ":") {
		l.Host = strings.Join(c.suggestedLabels(), ".")
	}
	if l.Path = c.pattern.Path; !strings.HasPrefix(c.image.Path, l.Path) {
		l.Path = suggestedPath(l.Path, c.image.Path)
	}
	return l
}

// suggestedLabels returns the image's labels with the pattern's globs. It allows no
// glob in the owner's domain.
func (c *patternComparison) suggestedLabels() []string {
	switch {
	case c.hostMatches():
		return c.patternLabels
	case c.correctedLabels != nil:
		return c.correctedLabels
	}
	labels, longer := slices.Clone(c.imageLabels), len(c.imageLabels)-len(c.patternLabels)
	below := len(c.imageLabels) - len(ownerDomain(c.imageLabels))
	for j := range below {
		i := j
		if j >= c.equalPrefixLabels {
			i = j - longer
		}
		if agrees := j < c.equalPrefixLabels || j >= len(c.imageLabels)-c.equalSuffixLabels; agrees && location.MatchLabel(c.patternLabels[i], c.imageLabels[j]) {
			labels[j] = c.patternLabels[i]
		}
	}
	if longer == 1 && below > 0 && c.equalSuffixLabels == len(c.patternLabels) && c.patternLabels[0] == "*" {
		labels[0] = "*"
	}
	return labels
}

// suggestedPath returns a prefix of the image's path with as many segments as the
// pattern's path.
func suggestedPath(want, got string) string {
	// Keep only what is before a glob, tag or digest.
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

func relationBetween(pattern, image []string) domainRelation {
	p, i := ownerDomain(pattern), ownerDomain(image)
	switch {
	case isIPv4Labels(image):
		return compareIPv4Addresses(pattern, image)
	case slices.EqualFunc(p, i, strings.EqualFold):
		return relationSameDomain
	case haveSameOwner(p, i), containsOwner(pattern, i):
		return relationSameOwner
	case strings.Contains(strings.Join(p, "."), "*") && slices.EqualFunc(p, image[max(0, len(image)-len(p)):], location.MatchLabel):
		return relationAnyOwner
	}
	return relationUnrelated
}

func isIPv4Labels(host []string) bool {
	return len(host) == 4 && strings.Trim(strings.Join(host, ""), "0123456789") == ""
}

// compareIPv4Addresses compares IPv4 addresses by their first two numbers, which stand for the
// network.
func compareIPv4Addresses(pattern, image []string) domainRelation {
	switch {
	case len(pattern) != len(image) || !location.MatchLabel(pattern[0], image[0]):
		return relationUnrelated
	case pattern[0] == image[0] && pattern[1] == image[1]:
		return relationSameDomain
	case pattern[0] == image[0]:
		return relationSameOwner
	}
	return relationAnyOwner
}

// containsOwner reports whether the owner's name is one of the last labels of a pattern.
// This happens if the pattern's domain is incomplete or has more labels after it.
func containsOwner(pattern, domain []string) bool {
	if len(domain) < 2 {
		return false
	}
	at := slices.IndexFunc(pattern, func(s string) bool { return strings.EqualFold(s, domain[0]) })
	return at >= 0 && at >= len(pattern)-3 && (at > 0 || len(pattern) <= 2 || len(domain) == 3)
}

// secondLevelDomains lists the second-level names under which countries register
// domains.
var secondLevelDomains = []string{"ac", "co", "com", "edu", "go", "gob", "gov", "gv", "ltd", "mil", "ne", "net", "or", "org", "plc"}

// ownerDomain returns the labels of the owner's domain: the last two or, under a
// country's second level, the last three. It does not need a public suffix list,
// because a wrong guess only affects the ranking.
func ownerDomain(host []string) []string {
	n := 2
	if l := len(host); l > 2 && len(host[l-1]) == 2 && slices.Contains(secondLevelDomains, host[l-2]) {
		n = 3
	}
	return host[max(0, len(host)-n):]
}

// ownerDomains lists the domains of owners that have registries in several domains.
var ownerDomains = [][]string{
	{"amazonaws.com", "amazonaws.com.cn", "amazonaws.eu", "on.aws", "ecr.aws", "aws.com", "amazonwebservices.com.cn", "amazonwebservices.eu"},
	{"gcr.io", "pkg.dev"},
	{"docker.io", "docker.com"},
	{"azurecr.io", "azurecr.cn", "azurecr.us", "azurecr.de", "microsoft.com"},
	{"ghcr.io", "github.com"},
}

func haveSameOwner(a, b []string) bool {
	x, y := strings.ToLower(strings.Join(a, ".")), strings.ToLower(strings.Join(b, "."))
	return slices.ContainsFunc(ownerDomains, func(domains []string) bool { return slices.Contains(domains, x) && slices.Contains(domains, y) })
}
