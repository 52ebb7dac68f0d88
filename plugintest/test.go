// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"testing"

	"github.com/regcred/regcred/plugin"
)

// Test checks the plugin that cmd runs in a subtest for each check. An error
// fails it, a warning or an info is logged, and a check that could not be made
// is skipped. At most one Options may be given.
func Test(t *testing.T, cmd plugin.Command, opts ...Options) {
	t.Helper()
	var o Options
	if len(opts) > 0 {
		o = opts[0]
	}
	byCheck := map[string][]Finding{}
	var order []string
	for _, f := range Run(t.Context(), cmd, o) {
		if byCheck[f.Check] == nil {
			order = append(order, f.Check)
		}
		byCheck[f.Check] = append(byCheck[f.Check], f)
	}
	for _, id := range order {
		t.Run(id, func(t *testing.T) { report(t, byCheck[id]) })
	}
}

// reporter is what report needs of a [testing.T].
type reporter interface {
	Helper()
	Error(args ...any)
	Log(args ...any)
	Skip(args ...any)
}

// report passes the findings of one check on to a test.
func report(t reporter, findings []Finding) {
	t.Helper()
	for _, f := range findings {
		switch f.Severity {
		case Error:
			t.Error(f)
		case Warning, Info:
			t.Log(f)
		case Skip:
			t.Skip(f.Got)
		}
	}
}
