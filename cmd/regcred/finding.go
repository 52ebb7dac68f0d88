// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/terminal"
)

// findingLine prints a finding on a line of its own, as compilers do, and
// what to write instead below.
func findingLine(t *terminal.Text, f regcred.Finding) {
	m := map[regcred.Severity]terminal.Mark{
		regcred.SeverityError:   terminal.Error,
		regcred.SeverityWarning: terminal.Warn,
		regcred.SeverityInfo:    terminal.Info,
	}[f.Severity]
	t.Line(m, doctor.FindingText(f))
	if f.Suggestion != "" {
		t.Below("instead: " + f.Suggestion)
	}
}
