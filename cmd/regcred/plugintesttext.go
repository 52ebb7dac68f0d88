// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"fmt"
	"strings"

	"github.com/regcred/regcred/plugintest"
)

// severityMark is how a severity is shown.
func severityMark(s plugintest.Severity) mark {
	switch s {
	case plugintest.Pass:
		return markOK
	case plugintest.Skip:
		return markSkip
	case plugintest.Info:
		return markInfo
	case plugintest.Warning:
		return markWarn
	}
	return markError
}

// renderPluginTest lays out a table of all findings, then what is to be said
// about those that are no pass, and last the counts.
func (a *app) renderPluginTest(r *pluginTestReport) *text {
	t := a.newText()
	t.pair("plugin", r.Path)
	t.pair("arguments", hidden(r.Args))
	t.pair("environment", describeEnvironment(r.Environment))
	if len(r.Env) > 0 {
		t.pair("", "with "+strings.Join(r.Env, ", ")+" (values not shown)")
	}
	t.pair("images", strings.Join(r.Images, ", "))
	t.WriteByte('\n')
	for _, f := range r.Findings {
		t.checkLine(severityMark(f.Severity), f.Check, f.Got)
	}
	for _, f := range r.Findings {
		t.checkDetails(f)
	}
	t.WriteByte('\n')
	m := markOK
	switch {
	case !r.Passed:
		m = markFail
	case r.Counts[plugintest.Warning] > 0:
		m = markWarn
	}
	t.WriteString(t.pad(m) + "  ")
	t.wrap(markWidth+2, markWidth+2, fmt.Sprintf("%s: %s", count(r.Checks, "check"), describeCounts(r)))
	return t
}

// idWidth is the width of the column of checks.
func idWidth() int {
	width := 0
	for _, id := range checkIDs() {
		width = max(width, len(id))
	}
	return width
}

// checkLine prints a row of the table, whose last column is wrapped.
func (t *text) checkLine(m mark, id, s string) {
	indent := markWidth + 2 + idWidth() + 2
	fmt.Fprintf(t, "%s  %-*s", t.pad(m), idWidth()+2, id)
	t.wrap(indent, indent, s)
}

// checkDetails prints what was done, what a kubelet makes of it and how to
// mend it. A check that passed or was skipped has said it all in its row.
func (t *text) checkDetails(f plugintest.Finding) {
	if f.Severity == plugintest.Pass || f.Severity == plugintest.Skip {
		return
	}
	t.WriteString("\n" + t.pad(severityMark(f.Severity)) + "  " + printable(f.Check) + "\n")
	for _, part := range []struct{ label, text string }{
		{"did", f.Did}, {"got", f.Got}, {"kubelet", f.Kubelet}, {"fix", f.Fix},
	} {
		if part.text == "" {
			continue
		}
		const indent = markWidth + 2 + 9
		fmt.Fprintf(t, "%*s%-9s", markWidth+2, "", part.label)
		t.wrap(indent, indent, part.text)
	}
}

// describeCounts names the severities that occur, the worst first.
func describeCounts(r *pluginTestReport) string {
	var parts []string
	for _, c := range []struct {
		severity plugintest.Severity
		noun     string
	}{
		{plugintest.Error, "error"}, {plugintest.Warning, "warning"},
	} {
		if n := r.Counts[c.severity]; n > 0 {
			parts = append(parts, count(n, c.noun))
		}
	}
	for _, c := range []struct {
		severity plugintest.Severity
		word     string
	}{
		{plugintest.Info, "for information"}, {plugintest.Skip, "skipped"}, {plugintest.Pass, "passed"},
	} {
		if n := r.Counts[c.severity]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, c.word))
		}
	}
	return strings.Join(parts, ", ")
}

// renderChecks lays out the list of checks: the worst that each can find, and
// what a good plugin does.
func (a *app) renderChecks(checks []plugintest.Check) *text {
	t := a.newText()
	t.WriteString("The worst that each check can find, its id, and what a good plugin does:\n\n")
	for _, c := range checks {
		t.checkLine(severityMark(c.Severity), c.ID, c.Title)
	}
	return t
}
