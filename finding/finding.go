// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package finding defines the result of a check: what is wrong, how bad it is,
// where it is, and how to fix it. Packages lint and plugintest return findings.
//
//	for _, f := range lint.Check(cfg) {
//		if f.Severity == finding.SeverityError {
//			fmt.Println(f, f.Fix)
//		}
//	}
package finding

import (
	"fmt"
	"slices"
	"strings"
)

// Severity is the effect of a finding on image pulls. The values are stable: they
// appear in JSON output.
type Severity string

// Severities, from best to worst.
const (
	SeverityOK      Severity = "ok"      // the check passed
	SeveritySkipped Severity = "skipped" // the check could not run; Message has the reason
	SeverityInfo    Severity = "info"    // worth knowing
	SeverityWarning Severity = "warning" // works, but not as configured or not safely
	SeverityError   Severity = "error"   // cannot work
)

var severities = []Severity{SeverityOK, SeveritySkipped, SeverityInfo, SeverityWarning, SeverityError}

// Compare returns a negative number if s is less severe than other, zero if they are
// equal, and a positive number otherwise. Unknown severities sort first.
func (s Severity) Compare(other Severity) int {
	return slices.Index(severities, s) - slices.Index(severities, other)
}

// Finding is one result of a check. Its texts contain no secrets. A field that does not apply has
// its zero value.
type Finding struct {
	Rule     string   `json:"rule"` // stable name; docs/lint/README.md explains the rules of package lint
	Severity Severity `json:"severity"`
	Provider string   `json:"provider,omitempty"` // name in the configuration
	Host     string   `json:"host,omitempty"`     // host[:port] that was contacted
	File     string   `json:"file,omitempty"`
	Line     int      `json:"line,omitempty"`   // starts at 1
	Column   int      `json:"column,omitempty"` // in bytes, starts at 1
	Path     string   `json:"path,omitempty"`   // field in the file, such as providers[0].matchImages[1]
	Message  string   `json:"message"`
	Fix      string   `json:"suggestion,omitempty"` // replacement value, or instructions
}

// String returns the finding's position, message and rule on one line, such as
// "config.yaml:3:7: providers[0]: the message [rule]".
func (f Finding) String() string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File)
		for _, n := range []int{f.Line, f.Column} {
			if f.Line > 0 && n > 0 {
				fmt.Fprintf(&b, ":%d", n)
			}
		}
		b.WriteString(": ")
	}
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	b.WriteString(f.Message)
	if f.Rule != "" {
		fmt.Fprintf(&b, " [%s]", f.Rule)
	}
	return b.String()
}

// Worst returns the highest severity in list, or SeverityOK if list is empty.
func Worst(list []Finding) Severity {
	worst := SeverityOK
	for _, f := range list {
		if f.Severity.Compare(worst) > 0 {
			worst = f.Severity
		}
	}
	return worst
}
