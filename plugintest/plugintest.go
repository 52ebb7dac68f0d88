// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package plugintest checks whether an executable is a good image credential
// provider plugin: it runs it many times, as a kubelet would and as nobody
// should, and says what came back, what a kubelet makes of it and how to mend
// it. Any plugin for the kubelet's exec protocol (KEP-2133, KEP-4412) can be
// checked, in whatever language it is written.
//
//	func TestConformance(t *testing.T) {
//		plugintest.Test(t, plugin.Command{Path: "./my-plugin"})
//	}
//
// [Run] is the same for other programs: it returns findings and prints
// nothing. [Checks] lists the checks; docs/conformance.md explains each.
//
// Every run goes through [plugin.Command], so nothing a plugin does can hurt
// its examiner. The plugin does what it always does, though: one that asks a
// cloud asks it some forty times. Two things follow.
//
//   - Some checks clear the environment that a plugin inherits
//     (Command.Environ), or HOME alone. What it is configured by belongs into
//     Command.Env, which every run keeps: a plugin that is pointed at a test
//     server in another way asks the real cloud in those checks. Where one of
//     the usual variables that say where AWS, Azure and Google Cloud are asked
//     would be cleared, the check is skipped.
//   - The checks of service-account mode hand it a token. Without one of
//     yours, it is made up and signed by nobody.
package plugintest

import (
	"context"
	"slices"
	"testing"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/plugin"
)

// Run checks the plugin that cmd runs. There is at least one finding for each
// check, in the order of [Checks]; a check that passed or was skipped has
// exactly one. What is found is no error: Run itself cannot fail, and when ctx
// ends, the checks that are left are skipped. So are those that would run the
// plugin again when it has hung three times, or taken more than half a minute.
//
// cmd.Path is required. cmd.APIVersion may be empty: then the first of v1,
// v1beta1 and v1alpha1 that the plugin answers is used where the version does
// not matter. With [plugin.OutOfTree] the plugin is examined in that protocol,
// and the checks of what it does not have are skipped. cmd.Timeout bounds each
// run; a plugin that takes longer than that is at fault, so the kubelet's
// minute, which is the default, is right except in tests. cmd.Dir and
// cmd.Environ are what the plugin inherits, except in the checks that change
// them; cmd.Env and cmd.Args are kept in every run. cmd.Grace is ignored.
func Run(ctx context.Context, cmd plugin.Command, opts Options) []Finding {
	s := newSuite(ctx, cmd, opts)
	chosen := slices.DeleteFunc(checks(), func(c check) bool {
		// Every other check is skipped if the plugin cannot run at all.
		return len(opts.Only) > 0 && !slices.Contains(opts.Only, c.ID) && !(c.ID == "binary-runs" && s.broken())
	})
	var findings []Finding
	for i, c := range chosen {
		if opts.Progress != nil {
			opts.Progress(i, len(chosen), c.ID)
		}
		findings = append(findings, c.examine(s)...)
	}
	return findings
}

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
		if byCheck[f.Rule] == nil {
			order = append(order, f.Rule)
		}
		byCheck[f.Rule] = append(byCheck[f.Rule], f)
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
		case finding.SeverityError:
			t.Error(f)
		case finding.SeverityWarning, finding.SeverityInfo:
			t.Log(f)
		case finding.SeveritySkipped:
			t.Skip(f.Message)
		}
	}
}
