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
		{report.Verdict{Outcome: report.WithCredentials}, exitOK, terminal.OK},
		{report.Verdict{Outcome: report.WithCredentials, Failed: []string{"p"}}, exitOK, terminal.Warning},
		{report.Verdict{Outcome: report.Matched}, exitOK, terminal.OK},
		{report.Verdict{Outcome: report.Anonymous}, exitNoMatch, terminal.Warning},
		{report.Verdict{Outcome: report.Unmatched}, exitNoMatch, terminal.Warning},
		{report.Verdict{Outcome: report.Failed, Failed: []string{"p"}}, exitFailed, terminal.Error},
		{report.Verdict{Outcome: report.Invalid}, exitFailed, terminal.Error},
	} {
		if code, mark := verdictExitCode(&tt.verdict), verdictMark(&tt.verdict); code != tt.code || mark != tt.mark {
			t.Errorf("%+v: %d, %s; want %d, %s", tt.verdict, code, mark, tt.code, tt.mark)
		}
	}
}
