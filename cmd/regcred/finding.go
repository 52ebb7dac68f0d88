// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/lint"
)

// findingLine prints a finding on a line of its own, as compilers do, and
// what to write instead below.
func findingLine(t *terminal.Text, f lint.Finding) {
	m := map[lint.Severity]terminal.Mark{
		lint.SeverityError:   terminal.Error,
		lint.SeverityWarning: terminal.Warn,
		lint.SeverityInfo:    terminal.Info,
	}[f.Severity]
	t.Line(m, doctor.FindingText(f))
	if f.Suggestion != "" {
		t.Below("instead: " + f.Suggestion)
	}
}
