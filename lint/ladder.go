// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"strings"

	"github.com/regcred/regcred/config"
)

// list is the matchImages of a provider, seen at once.
type list struct {
	index map[string]int // from 1, of the first of equals
	rungs []string       // of a ladder, each once, in their order
}

func listOf(patterns []string) *list {
	l := &list{index: make(map[string]int, len(patterns))}
	for k, s := range patterns {
		if l.index[s] == 0 {
			if l.index[s] = k + 1; isRung(s) {
				l.rungs = append(l.rungs, s)
			}
		}
	}
	if len(l.rungs) < 2 {
		l.rungs = nil
	}
	return l
}

// rung reports whether a pattern is part of a ladder: of *, *.*, *.*.* and so
// on two or more, which nobody writes by mistake.
func (l *list) rung(pattern string) bool { return l.rungs != nil && isRung(pattern) }

func isRung(pattern string) bool {
	return pattern != "" && strings.Trim(pattern, "*.") == "" && !strings.Contains("."+pattern+".", "..") && !strings.Contains(pattern, "**")
}

// ruleWildcardLadder says once what the rules for each of its rungs would.
func ruleWildcardLadder(p *config.Provider) []remark {
	l := listOf(p.MatchImages)
	if l.rungs == nil {
		return nil
	}
	most := 0
	for _, s := range l.rungs {
		most = max(most, strings.Count(s, "*"))
	}
	return within(config.FieldPath{"matchImages", l.index[l.rungs[0]] - 1}, "",
		"%d patterns that consist only of * labels match every registry host with up to %d labels and no port, so the kubelet runs the plugin for each host",
		len(l.rungs), most)
}
