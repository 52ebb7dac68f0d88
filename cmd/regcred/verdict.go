// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
)

// verdictCode returns the exit code of explain.
func verdictCode(v *report.Verdict) int {
	switch {
	case v.Good():
		return exitOK
	case v.Outcome == report.Anonymous || v.Outcome == report.Unmatched:
		return exitEmpty
	}
	return exitFailed
}

func verdictMark(v *report.Verdict) terminal.Mark {
	switch verdictCode(v) {
	case exitOK:
		if len(v.Failed) > 0 {
			return terminal.Warning
		}
		return terminal.OK
	case exitEmpty:
		return terminal.Warning
	}
	return terminal.Error
}
