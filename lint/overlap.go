// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"fmt"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/lint/internal/imagename"
	"github.com/regcred/regcred/lint/internal/rules"
)

// Limits for comparing patterns with each other.
const (
	maxComparisons     = 5_000_000 // for each rule; enough for 2,000 patterns
	globComparisonCost = 32        // cost of comparing two globs, as a number of comparisons
	maxPatterns        = 16 << 10  // limit for all providers together, so one provider may have them all
	maxPatternLength   = 1 << 10   // hosts of images are shorter
	maxOverlaps        = 10        // maximum number of overlapping providers reported for one provider
)

type comparablePattern struct {
	location.Pattern
	index  int      // index in matchImages
	labels []string // labels of the host
}

func (c comparablePattern) displayText() string {
	return excerpt.TruncateValue(excerpt.RedactPattern(c.String()))
}

// comparablePatterns returns the provider's patterns that are compared with other patterns, at most limit.
// It omits the patterns of a catch-all, because they overlap with nearly all others and have their
// own finding.
func comparablePatterns(p *config.Provider, limit int) []comparablePattern {
	var list []comparablePattern
	siblings := newPatternList(p.MatchImages)
	for k, s := range p.MatchImages {
		if len(list) == limit {
			break
		}
		if len(s) > maxPatternLength {
			continue
		}
		if p, err := location.ParsePattern(s); err == nil && !siblings.isInCatchAll(s) && imagename.IsMatchable(p.Location) {
			list = append(list, comparablePattern{p, k, p.Labels()})
		}
	}
	return list
}

// overlap is a pair of providers with patterns that match the same image. If possible, the two
// patterns have different text.
type overlap struct {
	first, second               int // provider indexes; first is the lower one
	firstPattern, secondPattern *comparablePattern
	image                       string
}

func findOverlaps(c *config.Config) (found []overlap) {
	var lists [][]comparablePattern // candidates of each provider that has any
	var indexes []int
	for i, room := 0, maxPatterns; i < len(c.Providers) && room > 0; i++ {
		if list := comparablePatterns(&c.Providers[i], room); len(list) > 0 {
			lists, indexes = append(lists, list), append(indexes, i)
			room -= len(list)
		}
	}
	budget := maxComparisons
	for second := range lists {
		before := len(found)
		for first := range second {
			if budget < 0 || len(found)-before == maxOverlaps {
				break
			}
			if pa, pb, image := firstOverlap(lists[first], lists[second], &budget); image != "" {
				found = append(found, overlap{indexes[first], indexes[second], pa, pb, image})
			}
		}
	}
	return found
}

// firstOverlap returns two patterns that match the same image, and the image. It prefers patterns
// with different text.
func firstOverlap(as, bs []comparablePattern, budget *int) (pa, pb *comparablePattern, image string) {
	for i := range bs {
		for k := range as {
			a, b := &as[k], &bs[i]
			if *budget--; *budget < 0 {
				return pa, pb, image
			}
			if !hostsIntersect(a.labels, b.labels, budget) {
				continue // excludes nearly all pairs without allocating
			}
			example := commonImage(a.Location, b.Location)
			if example == "" || image != "" && a.String() == b.String() {
				continue
			}
			if pa, pb, image = a, b, example; a.String() != b.String() {
				return pa, pb, image
			}
		}
	}
	return pa, pb, image
}

// overlapRules returns the rules for overlaps between a provider and the providers before it. The
// subject of each rule is the provider's index.
func overlapRules(c *config.Config, all []overlap) []rules.Rule[int] {
	return []rules.Rule[int]{
		rules.WarningRule("overlapping-providers", func(provider int) []rules.Result { return checkOverlaps(c, all, provider) }),
		rules.InfoRule("duplicate-pattern", func(provider int) []rules.Result { return checkSharedPattern(c, all, provider) }),
	}
}

func checkOverlaps(c *config.Config, all []overlap, provider int) (rs []rules.Result) {
	for _, o := range all {
		if o.second != provider || o.firstPattern.String() == o.secondPattern.String() {
			continue
		}
		first := excerpt.TruncateValue(c.Providers[o.first].Name)
		rs = append(rs, rules.NewFieldResult(fmt.Sprintf("matchImages[%d]", o.secondPattern.index), "",
			"%q also matches %s, as does %q from provider %q: both plugins run, and credentials from %q are tried first for the same auth key",
			o.secondPattern.displayText(), o.image, o.firstPattern.displayText(), first, first)...)
	}
	return rs
}

// checkSharedPattern reports a provider whose only overlap with an earlier provider is an identical
// pattern. This is often intentional, so it reports each provider only once.
func checkSharedPattern(c *config.Config, all []overlap, provider int) []rules.Result {
	for _, o := range all {
		if o.second != provider || o.firstPattern.String() != o.secondPattern.String() {
			continue
		}
		first := excerpt.TruncateValue(c.Providers[o.first].Name)
		return rules.NewFieldResult(fmt.Sprintf("matchImages[%d]", o.secondPattern.index), "",
			"provider %q also has the pattern %q: both plugins run for its images, and credentials from %q are tried first for the same auth key",
			first, o.secondPattern.displayText(), first)
	}
	return nil
}

func checkDuplicatePattern(p *config.Provider) (rs []rules.Result) {
	first := map[string]int{}
	for k, s := range p.MatchImages {
		if i, seen := first[s]; seen {
			rs = append(rs, rules.NewFieldResult(fmt.Sprintf("matchImages[%d]", k), "remove the duplicate", "%q is already in matchImages[%d]", excerpt.TruncateValue(excerpt.RedactPattern(s)), i)...)
			continue
		}
		first[s] = k
	}
	return rs
}

// checkCoveredPattern reports patterns whose images are all matched by another pattern
// of the same provider.
func checkCoveredPattern(p *config.Provider) (rs []rules.Result) {
	list := comparablePatterns(p, maxPatterns)
	budget := maxComparisons
	for k, b := range list {
		for i, a := range list {
			if budget--; budget < 0 {
				return rs
			}
			if a.String() != b.String() && coversPattern(a, b) && (i < k || !coversPattern(b, a)) {
				rs = append(rs, rules.NewFieldResult(fmt.Sprintf("matchImages[%d]", b.index), "remove the pattern", "%q is redundant, because %q matches all its images",
					b.displayText(), a.displayText())...)
				break
			}
		}
	}
	return rs
}

// coversPattern reports whether a matches every image, and every registry without an image, that b
// matches.
func coversPattern(a, b comparablePattern) bool {
	return strings.HasPrefix(b.Path, a.Path) && a.Covers(b.Pattern)
}
