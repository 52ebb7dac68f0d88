// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"testing"

	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
)

func TestVerdict(t *testing.T) {
	for _, tt := range []struct {
		verdict report.Verdict
		code    int
		mark    terminal.Mark
	}{
		{report.Verdict{Outcome: report.VerdictWithCredentials}, exitOK, terminal.MarkOK},
		{report.Verdict{Outcome: report.VerdictWithCredentials, Failed: []string{"p"}}, exitOK, terminal.MarkWarning},
		{report.Verdict{Outcome: report.VerdictMatched}, exitOK, terminal.MarkOK},
		{report.Verdict{Outcome: report.VerdictAnonymous}, exitNoMatch, terminal.MarkWarning},
		{report.Verdict{Outcome: report.VerdictUnmatched}, exitNoMatch, terminal.MarkWarning},
		{report.Verdict{Outcome: report.OutcomeFailed, Failed: []string{"p"}}, exitFailed, terminal.MarkError},
		{report.Verdict{Outcome: report.VerdictInvalid}, exitFailed, terminal.MarkError},
	} {
		if code, mark := verdictExitCode(&tt.verdict), verdictMark(&tt.verdict); code != tt.code || mark != tt.mark {
			t.Errorf("%+v: %d, %s; want %d, %s", tt.verdict, code, mark, tt.code, tt.mark)
		}
	}
}
