// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package entries

import (
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/excerpt"
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

// Uncovered returns the gaps of wanted entries in the entries that a kubelet
// has. A pattern is covered if a single pattern of the entry with the same name
// and tokens covers it ([location.Pattern.Covers]). Patterns that do not parse
// match nothing.
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
