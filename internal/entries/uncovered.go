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

// Gap is the part of a wanted entry that a kubelet's entries do not cover.
type Gap struct {
	Entry    Entry    // the wanted entry
	Patterns []string // its patterns that match images for which the kubelet would not run regcred
	New      bool     // the kubelet has no entry with this name and these tokenAttributes
}

// String returns a description such as "*.ecr.example" with tokenAttributes for
// audience "X".
func (g Gap) String() string {
	shown := make([]string, len(g.Patterns))
	for i, s := range g.Patterns {
		shown[i] = fmt.Sprintf("%q", excerpt.Pattern(s))
	}
	text := strings.Join(shown, ", ")
	if t := g.Entry.TokenAttributes; t != nil {
		text += " with "
		if g.New {
			text += "new "
		}
		text += fmt.Sprintf("tokenAttributes for audience %q", excerpt.Value(t.ServiceAccountTokenAudience))
	}
	return text
}

// Uncovered returns the gaps of wanted entries in the entries that a kubelet has. A pattern
// is covered if a single pattern of the entry with the same name and tokens covers it
// ([location.Pattern.Covers]). Patterns that do not parse match nothing.
func Uncovered(have, want []Entry) (gaps []Gap) {
	for _, w := range want {
		i := slices.IndexFunc(have, func(h Entry) bool {
			return h.Name == w.Name && sameTokens(h.TokenAttributes, w.TokenAttributes)
		})
		if i < 0 {
			gaps = append(gaps, Gap{Entry: w, Patterns: w.MatchImages, New: true})
			continue
		}
		if left := uncovered(have[i].MatchImages, w.MatchImages); len(left) > 0 {
			gaps = append(gaps, Gap{Entry: w, Patterns: left})
		}
	}
	return gaps
}

// patterns are the parsed patterns of a list, nil for those that do not parse
// and so match nothing.
type patterns []*location.Pattern

func parsePatterns(list []string) patterns {
	all := make(patterns, len(list))
	for i, s := range list {
		if p, err := location.ParsePattern(s); err == nil {
			all[i] = &p
		}
	}
	return all
}

// cover reports whether a single one of them covers p.
func (all patterns) cover(p *location.Pattern) bool {
	return slices.ContainsFunc(all, func(w *location.Pattern) bool { return w != nil && w.Covers(*p) })
}

// exceed reports whether one of them covers p and matches more.
func (all patterns) exceed(p *location.Pattern) bool {
	return slices.ContainsFunc(all, func(w *location.Pattern) bool { return w != nil && w.Covers(*p) && !p.Covers(*w) })
}

// widest removes patterns that another one covers, and the later of two
// equivalent ones. It keeps those that do not parse, to be rejected later.
func widest(list []string) (kept []string) {
	all := parsePatterns(list)
	for i, p := range all {
		if p == nil || !all[:i].cover(p) && !all[i+1:].exceed(p) {
			kept = append(kept, list[i])
		}
	}
	return kept
}

// uncovered returns the wanted patterns that no other pattern covers.
func uncovered(have, want []string) (left []string) {
	others := parsePatterns(have)
	for i, p := range parsePatterns(want) {
		if p != nil && !others.cover(p) {
			left = append(left, want[i])
		}
	}
	return left
}
