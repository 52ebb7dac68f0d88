// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
)

// Check returns what the kubelet accepts but cannot work, or is dangerous, in
// the configuration alone. Findings are in the order of the files. They never
// hold a value of env or args, nor user information or a query that somebody
// wrote into a pattern.
func Check(c *config.Config) []finding.Finding {
	l := linter{config: c}
	apply(&l, configRules(), &whole{c, overlapsOf(c)}, nowhere)
	forProvider, forPattern := providerRules(), patternRules()
	for i := range c.Providers {
		p := &c.Providers[i]
		apply(&l, forProvider, p, spot{provider: i})
		others := listOf(p.MatchImages)
		for k := range p.MatchImages {
			apply(&l, forPattern, readPattern(p, k, others), spot{provider: i, rest: config.FieldPath{"matchImages", k}})
		}
	}
	return l.sorted()
}

// BinDir returns what is wrong with the executables of c's providers in
// binDir, on this machine, and with the paths in their args and env: missing, not executable, for another architecture,
// dynamically linked against a missing loader, writable by others.
func BinDir(c *config.Config, binDir string) []finding.Finding {
	l := linter{config: c}
	dir := inspectBinDir(c, binDir)
	apply(&l, binDirRules(), dir, nowhere)
	rules := binaryRules()
	for i := range c.Providers {
		if dir.err == nil {
			apply(&l, pathRules(), &c.Providers[i], spot{provider: i})
		}
		if p := &c.Providers[i]; dir.err == nil && config.CheckName(p.Name) == nil {
			apply(&l, rules, inspectBinary(binDir, p.Name, readerOf(p.Predecessor()), func(name string) bool { return names(c, name) }), spot{provider: i, rest: config.FieldPath{"name"}})
		}
	}
	return l.sorted()
}

// Binary returns what is wrong with one executable on this machine: the
// findings that [BinDir] has about a provider's. File is path.
func Binary(path string) []finding.Finding {
	var findings []finding.Finding
	b := inspectBinary(filepath.Dir(path), filepath.Base(path), theKubelet, nil)
	for _, r := range binaryRules() {
		for _, m := range r.check(b) {
			findings = append(findings, finding.Finding{Rule: r.name, Severity: r.severity, File: path, Message: m.message, Fix: m.suggestion})
		}
	}
	return findings
}

// linter collects findings.
type linter struct {
	config   *config.Config
	findings []located
	said     map[string]*tally // by rule
}

// tally is how often a rule has spoken.
type tally struct{ shown, more int }

// tally returns that of a rule.
func (l *linter) tally(rule string) *tally {
	if l.said[rule] == nil {
		if l.said == nil {
			l.said = map[string]*tally{}
		}
		l.said[rule] = &tally{}
	}
	return l.said[rule]
}

// located is a finding with what decides its order where there are no lines.
type located struct {
	finding.Finding
	provider int
}

// apply runs rules over one subject, which stands at base.
func apply[T any](l *linter, rules []rule[T], subject T, base spot) {
	for _, r := range rules {
		for _, m := range r.check(subject) {
			said := l.tally(r.name)
			if said.more += m.more; said.shown == maxRemarks {
				said.more++
				continue
			}
			said.shown++
			at := m.at
			if !at.elsewhere && !base.elsewhere {
				at.provider = base.provider
				at.rest = append(base.rest[:len(base.rest):len(base.rest)], m.at.rest...)
			}
			l.add(at, finding.Finding{Rule: r.name, Severity: r.severity, Message: m.message, Fix: m.suggestion})
		}
	}
}

func (l *linter) add(at spot, f finding.Finding) {
	if at.elsewhere {
		f.File, f.Line, f.Column, f.Path = at.where.File, at.where.Line, at.where.Column, at.where.Path
		l.findings = append(l.findings, located{f, -1})
		return
	}
	f.Provider = l.config.Providers[at.provider].Name
	where := l.config.Position(at.provider, at.rest...)
	f.File, f.Line, f.Column, f.Path = where.File, where.Line, where.Column, where.Path
	l.findings = append(l.findings, located{f, at.provider})
}

// sorted returns the findings in the order of the files.
func (l *linter) sorted() []finding.Finding {
	order := map[string]int{}
	for i, f := range l.config.Files() {
		order[f.Name] = i + 1
	}
	slices.SortStableFunc(l.findings, func(a, b located) int {
		return cmp.Or(
			cmp.Compare(order[a.File], order[b.File]),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.provider, b.provider),
		)
	})
	var findings []finding.Finding
	for _, f := range l.findings {
		findings = append(findings, f.Finding)
		said := l.tally(f.Rule)
		if said.shown--; said.shown == 0 && said.more > 0 {
			more := finding.Finding{Rule: f.Rule, Severity: f.Severity, File: f.File}
			more.Message = fmt.Sprintf("%d more findings for this rule; fix the ones above first", said.more)
			findings = append(findings, more)
		}
	}
	return findings
}
