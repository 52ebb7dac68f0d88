// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/plugintest"
)

func (a *app) pluginTestCmd() *cobra.Command {
	f := &pluginTestFlags{}
	cmd := &cobra.Command{
		Use:   "test PATH",
		Short: "Check a plugin for conformance with the exec protocol",
		Long: `Run the plugin at PATH about fifty times, with valid and invalid requests. For
each check, show what the plugin did, how the kubelet would treat it, and how to
fix it.

PATH is an executable; a name with no slash is looked up in --bin-dir. With
--config or --as-kubelet, PATH is the name of a provider, which is tested with
its configured arguments, environment, version and tokenAttributes. Otherwise,
use flags to set what the plugin needs.

The runs are real: if the plugin calls a cloud API, every run calls it. Some
checks clear the environment or HOME, so set the plugin's variables with --env,
which applies to every run. In particular, set the variables that point to a
test server; otherwise the plugin might call the real cloud.

The exit code is 1 if a check finds an error or, with --strict, a warning, or if
the plugin never responds. Otherwise, it is 0. Without access to the cloud, use
--check to run only checks that need no response.`,
		Example: `  regcred plugin test ./my-plugin --image registry.example/team/app
  regcred plugin test ./my-plugin --args get-credentials --env PASSWORD_FILE=/run/password
  regcred plugin test ./my-plugin --api-version v1alpha1
  sudo regcred plugin test --as-kubelet ecr-credential-provider --image IMAGE
  regcred plugin test --list`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.list {
				return optionalArgs()(cmd, args)
			}
			return requireArgs("PATH")(cmd, args)
		},
	}
	f.output = addOutputFlag(cmd, "text", "json")
	f.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := validateCheckIDs(f.checks); err != nil {
			return err
		}
		if f.list {
			return a.listChecks(f)
		}
		return a.pluginTest(cmd.Context(), f, args[0])
	}
	return cmd
}

// validateCheckIDs returns an error for unknown IDs in --check.
func validateCheckIDs(ids []string) error {
	for _, id := range ids {
		if !slices.Contains(checkIDs(), id) {
			return usageError("\"regcred plugin test --list\" lists the checks", "--check %q: no such check", id)
		}
	}
	return nil
}

// listChecks lists the checks, each with its highest severity and the expected behavior.
func (a *app) listChecks(f *pluginTestFlags) error {
	checks := slices.DeleteFunc(plugintest.Checks(), func(c plugintest.Check) bool {
		return len(f.checks) > 0 && !slices.Contains(f.checks, c.ID)
	})
	result := map[string][]plugintest.Check{"checks": checks}
	return a.printResult(f.output, result, func(t *terminal.Text) {
		t.Quote("", "Checks, each with its highest severity, its ID and the expected behaviour:")
		t.BlankLine()
		for _, c := range checks {
			t.Row(terminal.Mark(c.Severity), idColumnWidth()+2, c.ID, c.Title)
		}
	})
}

func (a *app) pluginTest(ctx context.Context, f *pluginTestFlags, path string) error {
	s, err := a.newTestSubject(ctx, f, path)
	if err != nil {
		return err
	}
	bars := a.NewCheckProgress(idColumnWidth())
	running := ""
	s.options.Only, s.options.Progress = f.checks, func(done, total int, check string) {
		if bars.Update(done, total, check); ctx.Err() == nil {
			running = check
		}
	}
	begin := a.Now()
	findings := plugintest.Run(ctx, s.command, s.options)
	findings = append(findings, findNoResponse(ctx, s, findings)...)
	bars.Close()
	if ctx.Err() != nil { // the result of a canceled check is meaningless
		findings = findings[:max(0, slices.IndexFunc(findings, func(f plugintest.Finding) bool { return running == "" || f.Rule == running }))]
	}
	r := newPluginTestReport(s, findings, f.strict)
	if ctx.Err() != nil {
		r.Passed, r.Interrupted = false, true
	}
	r.DurationSeconds = report.Seconds(a.Now().Sub(begin).Round(time.Millisecond))
	if err := a.printResult(f.output, r, r.render); err != nil || r.Passed {
		return err
	}
	return cmp.Or(ctx.Err(), exitWithCode(exitFailed))
}

const baseCheck = "base-answer"

// findNoResponse returns the finding of base-answer if the selected checks do not include it, some of
// them were skipped, and the plugin does not respond at all.
func findNoResponse(ctx context.Context, s *testSubject, findings []plugintest.Finding) []plugintest.Finding {
	skipped := slices.ContainsFunc(findings, func(f plugintest.Finding) bool { return f.Severity == finding.SeveritySkipped })
	if len(s.options.Only) == 0 || slices.Contains(s.options.Only, baseCheck) || !skipped || ctx.Err() != nil {
		return nil
	}
	base := s.options
	base.Only, base.Progress = []string{baseCheck}, nil
	return slices.DeleteFunc(plugintest.Run(ctx, s.command, base), func(f plugintest.Finding) bool {
		return f.Rule != baseCheck || f.Severity.Compare(finding.SeverityWarning) < 0
	})
}

// pluginTestReport is the result of "regcred plugin test -o json". Findings contain no
// secrets.
type pluginTestReport struct {
	Path            string                   `json:"path"`
	Provider        string                   `json:"provider,omitempty"` // name in the configuration, if --config is set
	Environment     string                   `json:"environment"`        // "caller" or "kubelet pid N"
	Args            int                      `json:"args"`               // number of arguments; the values may be secret
	Env             []string                 `json:"env"`                // names of the variables set for the runs
	Images          []string                 `json:"images"`
	Passed          bool                     `json:"passed"`                // exit code 0
	Interrupted     bool                     `json:"interrupted,omitempty"` // if true, the remaining checks are missing
	Checks          int                      `json:"checks"`
	Counts          map[finding.Severity]int `json:"counts"` // number of checks by highest severity
	Findings        []plugintest.Finding     `json:"findings"`
	DurationSeconds float64                  `json:"durationSeconds"`
}

func newPluginTestReport(s *testSubject, findings []plugintest.Finding, strict bool) *pluginTestReport {
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
	for _, severity := range []finding.Severity{
		finding.SeverityOK, finding.SeveritySkipped, finding.SeverityInfo, finding.SeverityWarning, finding.SeverityError,
	} {
		r.Counts[severity] = 0
	}
	highest := map[string]finding.Severity{}
	for i, f := range findings {
		if f.Rule == baseCheck && f.Severity == finding.SeverityWarning {
			f.Severity = finding.SeverityError // most checks were skipped, so the plugin did not pass
			findings[i] = f
		}
		if f.Severity.Compare(highest[f.Rule]) > 0 {
			highest[f.Rule] = f.Severity
		}
	}
	r.Checks = len(highest)
	for _, severity := range highest {
		r.Counts[severity]++
	}
	r.Passed = r.Counts[finding.SeverityError] == 0 && (!strict || r.Counts[finding.SeverityWarning] == 0)
	return r
}

// render prints a table of all findings, then the details of those that did not pass,
// and the counts.
func (r *pluginTestReport) render(t *terminal.Text) {
	t.Pair("plugin", r.Path)
	t.Pair("arguments", argCountText(r.Args))
	t.Pair("environment", environmentText(r.Environment))
	if len(r.Env) > 0 {
		t.Pair("", "with "+strings.Join(r.Env, ", ")+" (values not shown)")
	}
	t.Pair("images", strings.Join(r.Images, ", "))
	t.BlankLine()
	for _, f := range r.Findings {
		t.Row(terminal.Mark(f.Severity), idColumnWidth()+2, f.Rule, f.Message)
	}
	for _, f := range r.Findings {
		renderCheckDetails(t, f)
	}
	t.BlankLine()
	m := terminal.MarkOK
	switch {
	case !r.Passed:
		m = terminal.MarkError
	case r.Counts[finding.SeverityWarning] > 0:
		m = terminal.MarkWarning
	}
	sum := terminal.FormatCount(r.Checks, "check")
	if r.Checks > 0 {
		sum += ": " + terminal.SeverityCounts(r.Counts)
	}
	if r.Interrupted {
		sum += "; interrupted before the remaining checks"
	}
	t.Row(m, 0, "", sum)
}

// idColumnWidth returns the width of the ID column.
func idColumnWidth() int {
	width := 0
	for _, id := range checkIDs() {
		width = max(width, len(id))
	}
	return width
}

// renderCheckDetails prints the observed behavior, how it affects the kubelet, and how
// to fix it. Passed and skipped checks have no details.
func renderCheckDetails(t *terminal.Text, f plugintest.Finding) {
	if f.Severity == finding.SeverityOK || f.Severity == finding.SeveritySkipped {
		return
	}
	t.BlankLine()
	t.Row(terminal.Mark(f.Severity), 0, "", f.Rule)
	for _, part := range []struct{ label, text string }{
		{"did", f.Did}, {"got", f.Message}, {"effect", f.Kubelet}, {"fix", f.Fix},
	} {
		if part.text != "" {
			t.ContinuationRow(part.label, part.text)
		}
	}
}
