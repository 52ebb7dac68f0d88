// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"fmt"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/plugin"
)

// predecessor reports whether no kubelet reads f.
func predecessor(f regcred.File) bool { return f.APIVersion == plugin.OutOfTree }

// stopsKubelet tells the findings about executables for which the kubelet
// exits (RegisterCredentialProviderPlugins in plugins.go): its verdict has
// two parts, of which [regcred.Config.Validate] is one.
func stopsKubelet(f regcred.Finding) bool {
	switch f.Rule {
	case "missing-bin-dir", "missing-binary", "not-a-file", "not-executable":
		return true
	}
	return false
}

// findingLine prints a finding on a line of its own, as compilers do, and
// what to write instead below.
func findingLine(t *terminal.Text, f regcred.Finding) {
	m := map[regcred.Severity]terminal.Mark{
		regcred.SeverityError:   terminal.Error,
		regcred.SeverityWarning: terminal.Warn,
		regcred.SeverityInfo:    terminal.Info,
	}[f.Severity]
	where := &regcred.FieldError{File: f.File, Line: f.Line, Column: f.Column, Path: f.Path, Msg: fmt.Sprintf("%s [%s]", f.Message, f.Rule)}
	t.Line(m, where.Error())
	if f.Suggestion != "" {
		t.Below("instead: " + f.Suggestion)
	}
}
