// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"strings"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/plugintest"
)

// pluginTestReport is the result of "regcred plugin test -o json". Findings contain no
// secrets.
type pluginTestReport struct {
	Path            string                   `json:"path"`
	Provider        string                   `json:"provider,omitempty"` // name in the configuration, if --config is set
	Environment     string                   `json:"environment"`        // "caller" or "kubelet pid N"
	Args            int                      `json:"args"`               // number only; values may be secret
	Env             []string                 `json:"env"`                // names set for the run
	Images          []string                 `json:"images"`
	Passed          bool                     `json:"passed"`                // exit code 0
	Interrupted     bool                     `json:"interrupted,omitempty"` // the remaining checks are missing
	Checks          int                      `json:"checks"`
	Counts          map[finding.Severity]int `json:"counts"` // number of checks by highest severity
	Findings        []plugintest.Finding     `json:"findings"`
	DurationSeconds float64                  `json:"durationSeconds"`
}

func newPluginTestReport(s *subject, findings []plugintest.Finding, strict bool) *pluginTestReport {
	r := &pluginTestReport{
		Path:        s.command.Path,
		Provider:    s.provider,
		Environment: s.environment,
		Args:        len(s.command.Args),
		Env:         []string{},
		Images:      s.options.Images,
		Counts:      map[finding.Severity]int{},
		Findings:    findings,
	}
	for _, entry := range s.command.Env {
		name, _, _ := strings.Cut(entry.Reveal(), "=")
		r.Env = append(r.Env, name)
	}
	for _, severity := range severities() {
		r.Counts[severity] = 0
	}
	for _, severity := range worstByCheck(findings) {
		r.Counts[severity]++
		r.Checks++
	}
	r.Passed = r.Counts[finding.SeverityError] == 0 && (!strict || r.Counts[finding.SeverityWarning] == 0)
	return r
}

func severities() []finding.Severity {
	return []finding.Severity{finding.SeverityOK, finding.SeveritySkipped, finding.SeverityInfo, finding.SeverityWarning, finding.SeverityError}
}

// worstByCheck returns the highest severity of each check, by its ID.
func worstByCheck(findings []plugintest.Finding) map[string]finding.Severity {
	worst := map[string]finding.Severity{}
	for _, f := range findings {
		if f.Severity.Compare(worst[f.Rule]) > 0 {
			worst[f.Rule] = f.Severity
		}
	}
	return worst
}

func checkIDs() []string {
	var ids []string
	for _, c := range plugintest.Checks() {
		ids = append(ids, c.ID)
	}
	return ids
}

// render prints a table of all findings, then the details of those that did not pass,
// and the counts.
func (r *pluginTestReport) render(t *terminal.Text) {
	t.Pair("plugin", r.Path)
	t.Pair("arguments", hidden(r.Args))
	t.Pair("environment", describeEnvironment(r.Environment))
	if len(r.Env) > 0 {
		t.Pair("", "with "+strings.Join(r.Env, ", ")+" (values not shown)")
	}
	t.Pair("images", strings.Join(r.Images, ", "))
	t.Blank()
	for _, f := range r.Findings {
		t.Row(terminal.Mark(f.Severity), idWidth()+2, f.Rule, f.Message)
	}
	for _, f := range r.Findings {
		checkDetails(t, f)
	}
	t.Blank()
	m := terminal.OK
	switch {
	case !r.Passed:
		m = terminal.Error
	case r.Counts[finding.SeverityWarning] > 0:
		m = terminal.Warning
	}
	sum := terminal.Count(r.Checks, "check")
	if r.Checks > 0 {
		sum += ": " + terminal.Tally(r.Counts)
	}
	if r.Interrupted {
		sum += "; interrupted before the remaining checks"
	}
	t.Row(m, 0, "", sum)
}

// idWidth returns the width of the ID column.
func idWidth() int {
	width := 0
	for _, id := range checkIDs() {
		width = max(width, len(id))
	}
	return width
}

// checkDetails prints the observed behavior, its effect in the kubelet and how to fix
// it. Passed and skipped checks have no details.
func checkDetails(t *terminal.Text, f plugintest.Finding) {
	if f.Severity == finding.SeverityOK || f.Severity == finding.SeveritySkipped {
		return
	}
	t.Blank()
	t.Row(terminal.Mark(f.Severity), 0, "", f.Rule)
	for _, part := range []struct{ label, text string }{
		{"did", f.Did}, {"got", f.Message}, {"effect", f.Kubelet}, {"fix", f.Fix},
	} {
		if part.text != "" {
			t.BelowRow(part.label, part.text)
		}
	}
}

// renderChecks lists the checks, each with its highest severity and the expected
// behavior.
func renderChecks(t *terminal.Text, checks []plugintest.Check) {
	t.Quote("", "Checks, each with its highest severity, its ID and the expected behaviour:")
	t.Blank()
	for _, c := range checks {
		t.Row(terminal.Mark(c.Severity), idWidth()+2, c.ID, c.Title)
	}
}
