// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"fmt"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/lint/internal/rules"
)

// patternList indexes the matchImages of a provider.
type patternList struct {
	index map[string]int // position of the first occurrence, from 1
	// The distinct patterns of * labels, such as * and *.*, in their order. Two or
	// more are an intended catch-all, which is reported once instead of for each.
	catchAll []string
}

func newPatternList(patterns []string) *patternList {
	l := &patternList{index: make(map[string]int, len(patterns))}
	for k, s := range patterns {
		if l.index[s] == 0 {
			if l.index[s] = k + 1; hasOnlyStars(s) {
				l.catchAll = append(l.catchAll, s)
			}
		}
	}
	if len(l.catchAll) < 2 {
		l.catchAll = nil
	}
	return l
}

// inCatchAll reports whether a pattern is part of the provider's catch-all.
func (l *patternList) inCatchAll(pattern string) bool {
	return l.catchAll != nil && hasOnlyStars(pattern)
}

// hasOnlyStars reports whether each label of a pattern is *.
func hasOnlyStars(pattern string) bool {
	return pattern != "" && strings.Trim(pattern, "*.") == "" && !strings.Contains("."+pattern+".", "..") && !strings.Contains(pattern, "**")
}

func checkCatchAll(p *config.Provider) []rules.Result {
	l := newPatternList(p.MatchImages)
	if l.catchAll == nil {
		return nil
	}
	most := 0
	for _, s := range l.catchAll {
		most = max(most, strings.Count(s, "*"))
	}
	return rules.InField(fmt.Sprintf("matchImages[%d]", l.index[l.catchAll[0]]-1), "",
		"%d patterns that consist only of * labels match every registry host with up to %d labels and no port, so the kubelet runs the plugin for each host",
		len(l.catchAll), most)
}
