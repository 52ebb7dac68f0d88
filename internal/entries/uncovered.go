// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package entries

import (
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/excerpt"
)

// Gap is what the entries that a kubelet has leave uncovered of a wanted one.
type Gap struct {
	Entry    Entry    // the wanted
	Patterns []string // those of its patterns that match images for which the kubelet would not ask
	New      bool     // the kubelet has no entry of this name and tokenAttributes, and so none of the patterns
}

// String is for people: "*.ecr.example" with tokenAttributes for audience "X".
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

// Uncovered returns what a kubelet that has some entries lacks of others; nil if
// every image for which these want it to ask is one for which it does, under the
// same name and with the same tokens. A pattern counts as covered if one other
// covers it alone ([match.Pattern.Covers]); those that do not parse match nothing.
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
