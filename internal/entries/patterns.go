// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package entries

import (
	"slices"

	"github.com/regcred/regcred/internal/location"
)

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
