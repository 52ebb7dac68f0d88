// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// skipped is what is never mutated.
var skipped = []string{
	"files that are not built on this system, and tests",
	"texts with a space in them, and those that errors.New and fmt.Errorf are given",
	"declarations of constants (their uses are mutated), array lengths, constant keys of literals, struct tags",
	"floating-point constants, concatenation of strings, :=, panic, goto, fallthrough",
	"cases of type switches and selects, default cases, labels of a switch as constants",
	"returned calls of more than three results",
}

type report struct {
	SchemaVersion int        `json:"schemaVersion"`
	Seed          uint64     `json:"seed"`
	Sites         int        `json:"sites"`
	Drawn         int        `json:"drawn"`
	Packages      []*summary `json:"packages"`
	Skipped       []string   `json:"neverMutated"`
}

type summary struct {
	Package      string     `json:"package"`
	Mutants      int        `json:"mutants"`
	Killed       int        `json:"killed"` // with those that timed out
	TimedOut     int        `json:"timedOut"`
	Survived     int        `json:"survived"` // with those that were not reached
	NotReached   int        `json:"notReached"`
	NotBuilt     int        `json:"notBuilt"` // in no other number
	FailingTests []string   `json:"failingTests,omitempty"`
	Survivors    []survivor `json:"survivors"`
	Unbuilt      []*site    `json:"unbuilt,omitempty"`
}

type survivor struct {
	site
	Reached bool `json:"reached"`
}

func (s *summary) count(m *site, status string) {
	if status == notBuilt {
		s.NotBuilt++
		s.Unbuilt = append(s.Unbuilt, m)
		return
	}
	s.Mutants++
	switch status {
	case timedOut:
		s.TimedOut++
		s.Killed++
	case killed:
		s.Killed++
	case notReached:
		s.NotReached++
		s.Survived++
		s.Survivors = append(s.Survivors, survivor{*m, false})
	case survived:
		s.Survived++
		s.Survivors = append(s.Survivors, survivor{*m, true})
	}
}

func (r *report) write(out io.Writer, format string) error {
	if format == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	for _, p := range r.Packages {
		for _, s := range p.Survivors {
			note := ""
			if !s.Reached {
				note = "  [not reached]"
			}
			fmt.Fprintf(out, "%s:%d:%d %s: %s → %s%s\n", s.File, s.Line, s.Column, s.Operator, s.Before, s.After, note)
		}
		for _, s := range p.Unbuilt {
			fmt.Fprintf(out, "%s:%d:%d %s: %s → %s  [does not compile, not counted]\n", s.File, s.Line, s.Column, s.Operator, s.Before, s.After)
		}
		for _, name := range p.FailingTests {
			fmt.Fprintf(out, "%s: test %s fails without a mutant, and was skipped\n", p.Package, name)
		}
	}
	for _, what := range r.Skipped {
		fmt.Fprintln(out, "never mutated:", what)
	}
	fmt.Fprintf(out, "%d of %d mutants, seed %d\n", r.Drawn, r.Sites, r.Seed)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "mutants\tkilled\ttimed out\tsurvived\tnot reached\tsurvived\t  package")
	total := &summary{Package: "all"}
	for _, p := range append(r.Packages, total) {
		fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%d\t%.1f %%\t  %s\n",
			p.Mutants, p.Killed, p.TimedOut, p.Survived, p.NotReached, 100*float64(p.Survived)/float64(max(1, p.Mutants)), p.Package)
		total.Mutants += p.Mutants
		total.Killed += p.Killed
		total.TimedOut += p.TimedOut
		total.Survived += p.Survived
		total.NotReached += p.NotReached
	}
	return table.Flush()
}
