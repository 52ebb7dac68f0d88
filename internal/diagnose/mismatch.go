// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/regcred/regcred/internal/location"
)

// Mismatch explains why a pattern does not match a repository.
type Mismatch struct {
	Reason     string // human-readable; "" if the pattern matches
	Suggestion string // a similar pattern that matches, or ""
	// Similarity ranks the patterns that do not match a repository; higher means more
	// similar. It is negative if the pattern is for another owner's domain.
	Similarity int
}

// ComparePattern explains the first difference between a pattern and a
// repository, in the order host, port, path.
func ComparePattern(p location.Pattern, image location.Location) Mismatch {
	if p.Match(image) {
		return Mismatch{Similarity: maxSimilarity}
	}
	intended, reason := correctPattern(p.Location, image)
	c := newPatternComparison(intended, image)
	if reason == "" {
		reason = c.mismatchReason()
	}
	m := Mismatch{Reason: reason, Similarity: c.similarityRank()}
	if instead, err := location.ParsePattern(c.suggestedPattern().String()); err == nil && c.isLikelyIntended() && instead.Match(image) {
		m.Suggestion = instead.String()
	}
	return m
}

const hubHost = "docker.io"

// HubAliases are host names of Docker Hub that never appear in image names.
var HubAliases = []string{
	"index.docker.io", "registry-1.docker.io", "registry.docker.io", "hub.docker.io", "www.docker.io", "docker.com",
	"hub.docker.com", "registry.hub.docker.com", "registry.docker.com", "index.docker.com", "www.docker.com",
}

// correctPattern corrects a common mistake that keeps a pattern from matching any
// image, and describes the mistake. It returns other patterns unchanged.
func correctPattern(p, image location.Location) (intended location.Location, reason string) {
	oneLabel, onHub := len(p.Labels()) == 1, image.Host == hubHost && image.Port == "" && p.Port == ""
	if rest, ok := strings.CutPrefix(p.Path, "//"); ok && oneLabel {
		if intended, err := location.Parse(rest); err == nil {
			return intended, fmt.Sprintf("scheme: patterns cannot have a scheme, so %q is parsed as the host", p.Host)
		}
	}
	intended = p
	switch {
	case onHub && slices.Contains(HubAliases, p.Host):
		intended.Host = hubHost
		reason = fmt.Sprintf("host: Docker Hub images are matched as docker.io/…, not %s/…", p.Host)
	case onHub && oneLabel && strings.HasPrefix(hubPath(p)+"/", image.Path+"/"):
		intended.Host, intended.Path = hubHost, hubPath(p)
		reason = "host: the pattern has no host, but Docker Hub images are matched as docker.io/…"
	case image.Host == hubHost && p.Host == hubHost && !strings.HasPrefix(image.Path, p.Path) && strings.HasPrefix(image.Path+"/", "/library"+p.Path+"/"):
		intended.Path = "/library" + p.Path
		reason = fmt.Sprintf("path: %q does not begin with %q (official Docker Hub images are in library/)", image.Path, p.Path)
	}
	return intended, reason
}

// hubPath returns the Docker Hub path of a name without a host.
func hubPath(l location.Location) string {
	if l.Path == "" {
		return "/library/" + l.Host
	}
	return "/" + l.Host + l.Path
}

func (c *patternComparison) mismatchReason() string {
	switch {
	case len(c.patternLabels) != len(c.imageLabels):
		return c.lengthMismatchReason()
	case !c.hostMatches():
		return c.labelMismatchReason()
	case c.pattern.Port != c.image.Port:
		return portMismatchReason(c.pattern.Port, c.image.Port)
	}
	return pathMismatchReason(c.pattern.Path, c.image.Path)
}

func (c *patternComparison) lengthMismatchReason() string {
	counts := fmt.Sprintf("host: %q has %s, but %q has %s (a * matches one label)",
		c.pattern.Host, FormatCount(len(c.patternLabels), "label"), c.image.Host, FormatCount(len(c.imageLabels), "label"))
	if c.relation < relationSameOwner {
		return counts
	}
	if pattern, image := c.differingSuffixes(); pattern != "" {
		return fmt.Sprintf("host: the pattern ends in %q, but the image host ends in %q", pattern, image)
	}
	d, much := len(c.patternLabels)-len(c.imageLabels), "long"
	if d < 0 {
		d, much = -d, "short"
	}
	return "host: " + FormatCount(d, "label") + " too " + much + strings.TrimPrefix(counts, "host")
}

// differingSuffixes returns the ends of the two hosts if their last labels differ. Both
// ends begin with the last label that the hosts have in common at the same position in the
// image's domain. If there is none, it returns "".
func (c *patternComparison) differingSuffixes() (pattern, image string) {
	start := len(c.imageLabels) - len(ownerDomain(c.imageLabels))
	for i := min(len(c.patternLabels), len(c.imageLabels)) - 1; c.equalSuffixLabels == 0 && i >= start; i-- {
		if c.patternLabels[i] == c.imageLabels[i] {
			return strings.Join(c.patternLabels[i:], "."), strings.Join(c.imageLabels[i:], ".")
		}
	}
	return "", ""
}

func (c *patternComparison) labelMismatchReason() string {
	i := 0
	for location.MatchLabel(c.patternLabels[i], c.imageLabels[i]) {
		i++
	}
	want, got, where := c.patternLabels[i], c.imageLabels[i], fmt.Sprintf("label %d", i+1)
	if i > 0 && i == len(c.patternLabels)-1 && c.relation >= relationSameOwner {
		where = "last label"
	}
	reason := fmt.Sprintf("%s: %q does not match %q", where, got, want)
	switch {
	case got == want:
		reason += " (brackets without a port after them are parsed as a character class)"
	case strings.EqualFold(got, want):
		reason += " (matching is case-sensitive)"
	}
	return reason
}

func portMismatchReason(want, got string) string {
	switch {
	case got == "":
		return fmt.Sprintf("port: the pattern has %s, but the image has none", want)
	case want == "":
		want = "none"
	}
	return fmt.Sprintf("port: the image has %s, but the pattern has %s", got, want)
}

func pathMismatchReason(want, got string) string {
	reason := fmt.Sprintf("path: %q does not begin with %q", got, want)
	switch {
	case strings.ContainsAny(want, "*["):
		reason += " (globs do not work in paths)"
	case strings.ContainsAny(want, ":@"):
		reason += " (matching ignores tags and digests)"
	case strings.ContainsFunc(want, unicode.IsUpper):
		reason += " (image paths must be lowercase)"
	case got != "" && got+"/" == want:
		reason += " (the trailing slash in the pattern requires a longer image path)"
	}
	return reason
}

// FormatCount returns "1 label" or "2 labels".
func FormatCount(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
