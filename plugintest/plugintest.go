// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package plugintest checks whether an executable is a correct image credential provider plugin
// (KEP-2133, KEP-4412). It runs the plugin many times with valid and invalid requests. Each
// finding describes the plugin's response, how the kubelet treats it, and how to fix it. The
// plugin can be written in any language.
//
//	func TestConformance(t *testing.T) {
//		plugintest.Test(t, plugin.Command{Path: "./my-plugin"})
//	}
//
// [Run] returns the findings without a test. [Checks] lists the checks. docs/conformance.md
// explains each check.
//
// [plugin.Command] limits the time and output of every run. The runs are real: a plugin that
// calls a cloud API calls it about forty times.
//
//   - Some checks clear the inherited environment (Command.Environ) or HOME. Put the
//     plugin's settings into Command.Env, which is passed to every run. A check is
//     skipped if it would clear a common variable with the address of an AWS, Azure or
//     Google Cloud API, because the plugin would then call the real cloud.
//   - The checks of service-account mode send a token. If the Options have no
//     ServiceAccount, the token is generated and has an invalid signature.
package plugintest

import (
	"context"
	"slices"
	"testing"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/plugin"
)

// Run checks the plugin that cmd runs. It returns at least one finding for each check, in the
// order of [Checks]. A check that passed or was skipped has exactly one finding. When ctx is
// done, the remaining checks are skipped. After three runs that hung or took more than 30
// seconds, checks that need another run are also skipped.
//
// Run uses the fields of cmd as follows. Path is required. If APIVersion is empty, Run uses the
// newest version that the plugin supports, except in checks of a certain version. With
// [plugin.OutOfTree], checks that do not apply to that protocol are skipped. Timeout limits
// each run. A longer run is an error. Args and Env are used in every run. Dir and Environ are
// used in every run except in the checks that change them. Grace is ignored.
func Run(ctx context.Context, cmd plugin.Command, opts Options) []Finding {
	s := newSuite(ctx, cmd, opts)
	chosen := slices.DeleteFunc(allChecks(), func(c check) bool {
		// If the plugin cannot run at all, run only the check that reports this.
		return len(opts.Only) > 0 && !slices.Contains(opts.Only, c.ID) && !(c.ID == "binary-runs" && s.isBroken())
	})
	var findings []Finding
	for i, c := range chosen {
		if opts.Progress != nil {
			opts.Progress(i, len(chosen), c.ID)
		}
		findings = append(findings, c.runCheck(s)...)
	}
	return findings
}

// Test runs the checks of [Run] as subtests. A subtest fails on errors, logs warnings and
// infos, and is skipped if the check is skipped. At most one Options may be passed.
func Test(t *testing.T, cmd plugin.Command, opts ...Options) {
	t.Helper()
	var o Options
	if len(opts) > 0 {
		o = opts[0]
	}
	byCheck := map[string][]Finding{}
	var order []string
	for _, f := range Run(t.Context(), cmd, o) {
		if byCheck[f.Rule] == nil {
			order = append(order, f.Rule)
		}
		byCheck[f.Rule] = append(byCheck[f.Rule], f)
	}
	for _, id := range order {
		t.Run(id, func(t *testing.T) { reportFindings(t, byCheck[id]) })
	}
}

// reporter has the methods of [testing.T] that report uses.
type reporter interface {
	Helper()
	Error(args ...any)
	Log(args ...any)
	Skip(args ...any)
}

func reportFindings(t reporter, findings []Finding) {
	t.Helper()
	for _, f := range findings {
		switch f.Severity {
		case finding.SeverityError:
			t.Error(f)
		case finding.SeverityWarning, finding.SeverityInfo:
			t.Log(f)
		case finding.SeveritySkipped:
			t.Skip(f.Message)
		}
	}
}
