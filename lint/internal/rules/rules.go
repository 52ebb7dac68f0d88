// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package rules runs lint rules and collects their findings. Packages lint and
// lint/pullsecret define the rules.
package rules

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
)

// Rule checks a T for one kind of mistake. Several rules can have the same name if they check
// variants of the same mistake. Names are stable; docs/lint/README.md has a section for each.
type Rule[T any] struct {
	Name     string
	Severity finding.Severity
	Check    func(T) []Result
}

// ErrorRule returns a rule for settings that cannot work.
func ErrorRule[T any](name string, check func(T) []Result) Rule[T] {
	return Rule[T]{name, finding.SeverityError, check}
}

// WarningRule returns a rule for settings that work, but are dangerous or do not do what
// they seem to.
func WarningRule[T any](name string, check func(T) []Result) Rule[T] {
	return Rule[T]{name, finding.SeverityWarning, check}
}

// InfoRule returns a rule for settings that do not need to be changed.
func InfoRule[T any](name string, check func(T) []Result) Rule[T] {
	return Rule[T]{name, finding.SeverityInfo, check}
}

// Names returns the names of the rules.
func Names[T any](list []Rule[T]) (names []string) {
	for _, r := range list {
		names = append(names, r.Name)
	}
	return names
}

// MaxResults limits the number of findings per rule, because a file can contain the same mistake
// thousands of times.
const MaxResults = 100

// Result is a mistake that a rule found.
type Result struct {
	Message, Fix string
	Field        string          // field of the checked value; see [Apply]
	Position     config.Position // position in a file, if Apply is called without locate
}

// NewResult returns one result about the whole checked value.
func NewResult(fix, format string, args ...any) []Result {
	return []Result{{Message: fmt.Sprintf(format, args...), Fix: fix}}
}

// ResultIf returns result if found is true, and nil otherwise. Use it only if result is cheap to
// create, because the caller creates it in both cases.
func ResultIf(found bool, result []Result) []Result {
	if !found {
		return nil
	}
	return result
}

// NewFieldResult returns one result about a field of the checked value.
func NewFieldResult(field string, fix, format string, args ...any) []Result {
	list := NewResult(fix, format, args...)
	list[0].Field = field
	return list
}

// NewPositionResult returns one result about a position in a file.
func NewPositionResult(place config.Position, fix, format string, args ...any) []Result {
	list := NewResult(fix, format, args...)
	list[0].Position = place
	return list
}

// Collector collects findings. The zero value is ready to use.
type Collector struct {
	findings []finding.Finding
	counts   map[string]int // number of results per rule, including results over MaxResults
}

// Apply runs the rules on a subject and adds their results to c. If locate is not nil, Apply calls
// it to find the position of a result's field. Otherwise Apply uses the result's Position.
func Apply[T any](c *Collector, list []Rule[T], subject T, locate func(string) finding.Finding) {
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	for _, r := range list {
		for _, result := range r.Check(subject) {
			if c.counts[r.Name]++; c.counts[r.Name] > MaxResults {
				continue
			}
			f := FindingAt(result.Position)
			if locate != nil {
				f = locate(result.Field)
			}
			f.Rule, f.Severity, f.Message, f.Fix = r.Name, r.Severity, result.Message, result.Fix
			c.findings = append(c.findings, f)
		}
	}
}

// FindingAt returns a finding that has only a position.
func FindingAt(at config.Position) finding.Finding {
	return finding.Finding{File: at.File, Line: at.Line, Column: at.Column, Path: at.Path}
}

// SortedFindings returns the findings sorted by file, line and column. The order of the files is
// that of the arguments. If a rule has more than MaxResults results, another finding contains the
// number of omitted results.
func (c *Collector) SortedFindings(files ...string) []finding.Finding {
	order := map[string]int{}
	for i, name := range files {
		order[name] = i + 1
	}
	slices.SortStableFunc(c.findings, func(a, b finding.Finding) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	var findings []finding.Finding
	listed := map[string]int{}
	for _, f := range c.findings {
		findings = append(findings, f)
		listed[f.Rule]++
		if more := c.counts[f.Rule] - MaxResults; more > 0 && listed[f.Rule] == MaxResults {
			findings = append(findings, finding.Finding{
				Rule: f.Rule, Severity: f.Severity, File: f.File,
				Message: fmt.Sprintf("%d more findings for this rule; fix the ones above first", more),
			})
		}
	}
	return findings
}
