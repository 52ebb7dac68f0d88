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

// Rule checks a T for one kind of mistake. A table may have several rules of the
// same name, one for each case. Names are stable; docs/lint/README.md has a
// section for each.
type Rule[T any] struct {
	Name     string
	Severity finding.Severity
	Check    func(T) []Result
}

// Error returns a rule for mistakes that cannot work.
func Error[T any](name string, check func(T) []Result) Rule[T] {
	return Rule[T]{name, finding.SeverityError, check}
}

// Warning returns a rule for mistakes that work, but dangerously or not as written.
func Warning[T any](name string, check func(T) []Result) Rule[T] {
	return Rule[T]{name, finding.SeverityWarning, check}
}

// Info returns a rule for settings that need no change.
func Info[T any](name string, check func(T) []Result) Rule[T] {
	return Rule[T]{name, finding.SeverityInfo, check}
}

// Names returns the rules' names.
func Names[T any](list []Rule[T]) (names []string) {
	for _, r := range list {
		names = append(names, r.Name)
	}
	return names
}

// MaxResults bounds how often one rule is reported, because a file can repeat a
// mistake a hundred thousand times.
const MaxResults = 100

// Result is a mistake that a rule found.
type Result struct {
	Message, Fix string
	Field        string          // in the subject of the rule
	Place        config.Position // in a file, for rules whose subject has no place
	more         int             // further results that were left out
}

// New returns one result about the subject as a whole.
func New(fix, format string, args ...any) []Result {
	return []Result{{Message: fmt.Sprintf(format, args...), Fix: fix}}
}

// If returns one result if the subject has the problem.
func If(found bool, fix, format string, args ...any) []Result {
	if !found {
		return nil
	}
	return New(fix, format, args...)
}

// InField returns one result about a field of the subject.
func InField(field string, fix, format string, args ...any) []Result {
	list := New(fix, format, args...)
	list[0].Field = field
	return list
}

// At returns one result about a place in a file.
func At(place config.Position, fix, format string, args ...any) []Result {
	list := New(fix, format, args...)
	list[0].Place = place
	return list
}

// Append appends results to list. It only counts those above the limit.
func Append(list []Result, more ...Result) []Result {
	for _, r := range more {
		if len(list) == MaxResults {
			list[MaxResults-1].more++
			continue
		}
		list = append(list, r)
	}
	return list
}

// Collector collects findings. The zero value is ready to use.
type Collector struct {
	findings []finding.Finding
	counts   map[string]*count // by rule
}

// count counts the findings of a rule: those listed and those left out.
type count struct{ listed, more int }

func (c *Collector) count(rule string) *count {
	if c.counts[rule] == nil {
		if c.counts == nil {
			c.counts = map[string]*count{}
		}
		c.counts[rule] = &count{}
	}
	return c.counts[rule]
}

// Apply runs the rules on a subject. It calls locate, if not nil, for the place
// of a result's field; otherwise the results have places.
func Apply[T any](c *Collector, list []Rule[T], subject T, locate func(string) finding.Finding) {
	for _, r := range list {
		for _, result := range r.Check(subject) {
			n := c.count(r.Name)
			if n.more += result.more; n.listed == MaxResults {
				n.more++
				continue
			}
			n.listed++
			var f finding.Finding
			if locate != nil {
				f = locate(result.Field)
			} else {
				f = Located(result.Place)
			}
			f.Rule, f.Severity, f.Message, f.Fix = r.Name, r.Severity, result.Message, result.Fix
			c.findings = append(c.findings, f)
		}
	}
}

// Located returns a finding that has only a place.
func Located(at config.Position) finding.Finding {
	return finding.Finding{File: at.File, Line: at.Line, Column: at.Column, Path: at.Path}
}

// Sorted returns the findings by line, in the order of the files. For each rule
// that was found too often, it adds the number of findings left out.
func (c *Collector) Sorted(files ...string) []finding.Finding {
	order := map[string]int{}
	for i, name := range files {
		order[name] = i + 1
	}
	slices.SortStableFunc(c.findings, func(a, b finding.Finding) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	var findings []finding.Finding
	for _, f := range c.findings {
		findings = append(findings, f)
		n := c.count(f.Rule)
		if n.listed--; n.listed == 0 && n.more > 0 {
			findings = append(findings, finding.Finding{
				Rule: f.Rule, Severity: f.Severity, File: f.File,
				Message: fmt.Sprintf("%d more findings for this rule; fix the ones above first", n.more),
			})
		}
	}
	return findings
}
