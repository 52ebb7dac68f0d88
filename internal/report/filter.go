// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/spelling"
	"github.com/regcred/regcred/lint"
	"github.com/regcred/regcred/lint/pullsecret"
)

// Filter selects lint findings by rule. The zero value selects all.
type Filter struct {
	Only     []string // if not empty, select only these rules
	Disabled []string
}

// Rules returns the names of all lint rules, sorted.
func Rules() []string {
	names := append(lint.Rules(), pullsecret.Rules()...)
	slices.Sort(names)
	return slices.Compact(names)
}

// ParseRules parses a comma-separated list of rule names. The error for an unknown
// name contains the most similar one.
func ParseRules(list string) ([]string, error) {
	all := Rules()
	names := strings.Split(list, ",")
	for i, name := range names {
		names[i] = strings.TrimSpace(name)
		if slices.Contains(all, names[i]) {
			continue
		}
		nearest := slices.MinFunc(all, func(a, b string) int {
			return spelling.Distance(a, names[i]) - spelling.Distance(b, names[i])
		})
		return nil, fmt.Errorf("unknown rule %q; the most similar is %s", names[i], nearest)
	}
	return names, nil
}

// Apply returns the selected findings, without those that comments in their files
// suppress, and the number of suppressed findings. text returns the content of a
// file. Findings that stop the kubelet are always kept.
func (f *Filter) Apply(list []finding.Finding, text func(file string) []byte) (kept []finding.Finding, suppressed int) {
	files := map[string]map[int][]string{}
	kept = []finding.Finding{}
	for _, found := range list {
		switch {
		case StopsKubelet(found):
		case len(f.Only) > 0 && !slices.Contains(f.Only, found.Rule) || slices.Contains(f.Disabled, found.Rule):
			continue
		default:
			byLine, read := files[found.File]
			if !read {
				byLine = suppressions(text(found.File))
				files[found.File] = byLine
			}
			if found.Line > 0 && slices.Contains(byLine[found.Line], found.Rule) {
				suppressed++
				continue
			}
		}
		kept = append(kept, found)
	}
	return kept, suppressed
}

// TextOf returns a function for [Filter.Apply] that returns the text of cfg's files.
func TextOf(cfg *config.Config) func(file string) []byte {
	return func(file string) []byte {
		for _, f := range cfg.Files() {
			if f.Name == file {
				return f.Data()
			}
		}
		return nil
	}
}
