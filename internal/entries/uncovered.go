// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package entries

import (
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/location"
)

// CoverageGap is the part of a wanted entry that a kubelet's entries do not cover.
type CoverageGap struct {
	Entry      Entry    // the wanted entry
	Patterns   []string // patterns that match images for which the kubelet would not run regcred
	IsNewEntry bool     // the kubelet has no entry with this name and these tokenAttributes
}

// String returns a description such as "*.ecr.example" with tokenAttributes for
// audience "X".
func (g CoverageGap) String() string {
	shown := make([]string, len(g.Patterns))
	for i, s := range g.Patterns {
		shown[i] = fmt.Sprintf("%q", excerpt.RedactPattern(s))
	}
	text := strings.Join(shown, ", ")
	if t := g.Entry.TokenAttributes; t != nil {
		text += " with "
		if g.IsNewEntry {
			text += "new "
		}
		text += fmt.Sprintf("tokenAttributes for audience %q", excerpt.TruncateValue(t.ServiceAccountTokenAudience))
	}
	return text
}

// FindGaps returns the patterns of wanted entries that a kubelet's entries do not cover. A
// pattern is covered if one pattern of the kubelet's entry with the same name and
// tokenAttributes covers it ([location.Pattern.Covers]). Patterns that cannot be parsed
// match nothing.
func FindGaps(have, want []Entry) (gaps []CoverageGap) {
	for _, w := range want {
		i := slices.IndexFunc(have, func(h Entry) bool {
			return h.Name == w.Name && equivalentTokens(h.TokenAttributes, w.TokenAttributes)
		})
		if i < 0 {
			gaps = append(gaps, CoverageGap{Entry: w, Patterns: w.MatchImages, IsNewEntry: true})
			continue
		}
		if left := uncoveredPatterns(have[i].MatchImages, w.MatchImages); len(left) > 0 {
			gaps = append(gaps, CoverageGap{Entry: w, Patterns: left})
		}
	}
	return gaps
}

// parsedPatterns holds the parsed patterns of a list. Patterns that cannot be parsed
// are nil, and match nothing.
type parsedPatterns []*location.Pattern

func parsePatterns(list []string) parsedPatterns {
	all := make(parsedPatterns, len(list))
	for i, s := range list {
		if p, err := location.ParsePattern(s); err == nil {
			all[i] = &p
		}
	}
	return all
}

// coversPattern reports whether a single pattern in the list covers p.
func (all parsedPatterns) coversPattern(p *location.Pattern) bool {
	return slices.ContainsFunc(all, func(w *location.Pattern) bool { return w != nil && w.Covers(*p) })
}

// strictlyCovers reports whether a pattern in the list covers p and matches more.
func (all parsedPatterns) strictlyCovers(p *location.Pattern) bool {
	return slices.ContainsFunc(all, func(w *location.Pattern) bool { return w != nil && w.Covers(*p) && !p.Covers(*w) })
}

// removeCovered removes patterns that another pattern covers, and the later of two
// equivalent patterns. Patterns that cannot be parsed are kept, and rejected later.
func removeCovered(list []string) (kept []string) {
	all := parsePatterns(list)
	for i, p := range all {
		if p == nil || !all[:i].coversPattern(p) && !all[i+1:].strictlyCovers(p) {
			kept = append(kept, list[i])
		}
	}
	return kept
}

// uncoveredPatterns returns the patterns of want that no pattern of have covers.
func uncoveredPatterns(have, want []string) (left []string) {
	others := parsePatterns(have)
	for i, p := range parsePatterns(want) {
		if p != nil && !others.coversPattern(p) {
			left = append(left, want[i])
		}
	}
	return left
}
