// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/node"
	controlled "github.com/regcred/regcred/internal/pullsecret"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/lint/pullsecret"
)

// validateFlags holds the flags of "regcred validate".
type validateFlags struct {
	output  *enumFlag
	strict  bool
	kubelet report.Kubelet
	rules   report.Filter
}

func (a *app) validateCmd() *cobra.Command {
	v := &validateFlags{}
	cmd := &cobra.Command{
		Use:   "validate [PATH]...",
		Short: "Check credential provider configurations and pull secrets",
		Long: `Check whether the kubelet would start with the configuration at PATH, a file or
a directory. All problems are listed at once with file, line and column,
followed by settings that the kubelet accepts but that will not work or are
dangerous. With --bin-dir, the executables are also checked. No plugin is run.
Each PATH is checked as a separate configuration.

PATH can also be a docker config.json, a .dockercfg or a manifest with Secrets;
the type is detected. Secret values are never shown. A PullSecretConfig is
checked for regcred-controller.

A RegistryCredentialConfig is accepted with a warning, because only regcred
reads it. With --kubelet-version or --feature-gates, a RegistryCredentialConfig
is an error.

--rule and --disable-rule select findings by lint rule. In YAML files, a comment
such as "# regcred:disable=RULE reason" suppresses findings on its line or, on a
line of its own, on the next line.

The exit code is 1 if the kubelet would not start, if a finding is an error or,
with --strict, if a finding is a warning. Otherwise, it is 0.`,
		Example: `  regcred validate providers.yaml
  regcred validate --strict --bin-dir /opt/plugins /etc/kubernetes/credential-providers
  regcred validate --kubelet-version 1.33 providers.yaml
  sudo regcred validate --as-kubelet -o json
  regcred validate -o sarif providers.yaml > regcred.sarif`,
	}
	v.output = addOutputFlag(cmd, "text", "json", "sarif")
	f := cmd.Flags()
	f.BoolVar(&v.strict, "strict", false, "fail on warnings too")
	var target config.Target
	addTargetFlags(cmd, &target, "to check for")
	addRuleFlags(cmd, &v.rules)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		named := f.Changed("kubelet-version") || f.Changed("feature-gates")
		v.kubelet = report.Kubelet{Version: target.KubeletVersion, FeatureGates: target.FeatureGates, Explicit: named}
		return a.validate(cmd.Context(), v, args)
	}
	return cmd
}

func (a *app) validate(ctx context.Context, v *validateFlags, paths []string) error {
	if len(paths) == 0 {
		paths = []string{""} // use the flags or the node's configuration
	}
	var list []*report.Validation
	var errs []error
	several := len(paths) > 1
	if err := checkKubeletVersion(v.kubelet.Version); err != nil {
		errs, paths = []error{err}, nil
	}
	for _, path := range paths {
		r, err := a.validatePath(ctx, v, path)
		if err != nil {
			errs = append(errs, err) // continue with the other paths
			continue
		}
		r.ApplyFilter(&v.rules)
		list = append(list, r)
	}
	if len(list) > 0 {
		a.printTargetNotes(v.kubelet.Target())
	}
	if v.output.value == "sarif" {
		var results []finding.Finding
		suppressed := 0
		for _, r := range list {
			results = append(results, r.AllFindings()...)
			suppressed += r.Suppressed
		}
		errs = append(errs, a.WriteForeignJSON(report.SARIF(buildVersion(), readFileIfPossible, results, suppressed, errs)))
	} else if len(list) > 0 {
		errs = append(errs, a.printValidations(v.output, list, several))
	}
	for _, r := range list {
		errs = append(errs, validationError(r, v.strict))
	}
	return errors.Join(errs...)
}

// printValidations prints the results. several is set if several paths were given, even
// if only one is readable.
func (a *app) printValidations(output *enumFlag, list []*report.Validation, several bool) error {
	var result any = list[0]
	if several {
		result = map[string][]*report.Validation{"validations": list}
	}
	return a.printResult(output, result, func(t *terminal.Text) {
		found := false
		for i, r := range list {
			if i > 0 {
				t.BlankLine()
			}
			renderValidation(t, r)
			found = found || len(r.Findings) > 0
		}
		if found {
			t.BlankLine()
			t.Quote("", "Rules: "+report.RulesURL)
		}
	})
}

// validatePath checks a docker config or a manifest with Secrets, or else loads,
// validates and lints a configuration.
func (a *app) validatePath(ctx context.Context, v *validateFlags, path string) (*report.Validation, error) {
	if data := readFileIfPossible(path); data != nil { // otherwise config.Load returns the error
		if controlled.IsPullSecretConfig(data) {
			f, err := controlled.Parse(path, data)
			if err != nil {
				return report.ValidatePullSecretConfig(path, 0, err), nil
			}
			return report.ValidatePullSecretConfig(path, len(f.Targets()), nil), nil
		}
		if r, err := report.ValidateCredentials(path, data, time.Now()); r != nil || err != nil {
			return r, cmp.Or(node.UncheckedError(err), err)
		}
	}
	o, err := a.resolveOrigin(ctx, path, false)
	if err != nil {
		return nil, err
	}
	cfg, err := config.Load(o.Config)
	if err := node.UncheckedError(err); err != nil {
		return nil, err
	}
	if err == nil {
		if err := a.localNode().CheckDiscovered(o, cfg); err != nil {
			return nil, err
		}
	}
	r, err := report.Validate(o.Config, cfg, err, v.kubelet, o.BinDir)
	if err != nil {
		return nil, usageError("", "--kubelet-version: %w", err)
	}
	return r, nil
}

// maxCredentialFileSize limits the size of a file with credentials, in bytes.
const maxCredentialFileSize = 16 << 20

// readFileIfPossible returns the content of a file, or nil if it cannot be read.
func readFileIfPossible(path string) []byte {
	data, err := regularfile.Read(context.Background(), path, maxCredentialFileSize)
	if err != nil {
		return nil
	}
	return data
}

// validationError returns an error if the findings make the command fail.
func validationError(r *report.Validation, strict bool) error {
	if !r.Valid {
		return exitWithCode(exitFailed)
	}
	count := map[finding.Severity]int{}
	for _, f := range r.Findings {
		count[f.Severity]++
	}
	if serious := count[finding.SeverityError] + count[finding.SeverityWarning]; strict && serious > 0 {
		return fmt.Errorf("--strict: %s", terminal.FormatCount(serious, "finding"))
	}
	if count[finding.SeverityError] > 0 { // doctor also fails on errors
		return exitWithCode(exitFailed)
	}
	return nil
}

func renderValidation(t *terminal.Text, r *report.Validation) {
	for _, p := range r.Problems {
		t.MarkedLine(terminal.MarkError, p.String())
	}
	if r.Credentials != nil {
		renderCredentials(t, r)
		renderFindings(t, r)
		return
	}
	if r.PullSecrets != nil {
		renderPullSecretConfig(t, r)
		return
	}
	accepted, refused := "accepted by regcred, but no kubelet would start with this configuration", "rejected by regcred, and no kubelet would start with this configuration"
	if r.KubeletVersion != "" {
		kubelet := "kubelet " + r.KubeletVersion + featureGatesText(r.FeatureGates)
		accepted, refused = "accepted by "+kubelet, kubelet+" would not start"
	}
	if r.Valid {
		t.MarkedLine(terminal.MarkOK, fmt.Sprintf("%s: %s, %s", r.Path, terminal.FormatCount(r.Providers, "provider"), accepted))
		t.MarkedLine("", r.Hash)
	} else {
		t.MarkedLine(terminal.MarkError, fmt.Sprintf("%s: %s: %s", r.Path, terminal.FormatCount(len(r.Problems), "problem"), refused))
	}
	renderFindings(t, r)
}

func renderPullSecretConfig(t *terminal.Text, r *report.Validation) {
	if r.Valid {
		t.MarkedLine(terminal.MarkOK, fmt.Sprintf("%s: pull secrets (registries and images: %d), accepted by regcred-controller", r.Path, r.PullSecrets.Targets))
		return
	}
	t.MarkedLine(terminal.MarkError, fmt.Sprintf("%s: %s: regcred-controller would not start", r.Path, terminal.FormatCount(len(r.Problems), "problem")))
}

func renderFindings(t *terminal.Text, r *report.Validation) {
	for _, f := range r.Findings {
		t.MarkedLine(terminal.Mark(f.Severity), f.String())
		if fix := report.FindingFix(f); fix != "" {
			t.ContinuationLine("fix: " + fix)
		}
	}
	if r.Suppressed > 0 {
		t.MarkedLine("", terminal.FormatCount(r.Suppressed, "finding")+" suppressed by comments")
	}
}

// renderCredentials prints the summary of a file with credentials.
func renderCredentials(t *terminal.Text, r *report.Validation) {
	c := r.Credentials
	what := string(c.Kind)
	if c.Kind == pullsecret.Manifest && c.Secrets > 0 {
		what = terminal.FormatCount(c.Secrets, "Secret")
	}
	if !r.Valid {
		t.MarkedLine(terminal.MarkError, fmt.Sprintf("%s: %s: the kubelet cannot use this file", r.Path, what))
		return
	}
	t.MarkedLine(terminal.MarkOK, fmt.Sprintf("%s: %s: %s", r.Path, what, doctor.CredentialCountText(c.Logins)))
}

func featureGatesText(gates map[string]bool) string {
	text, before := "", " with "
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		text += fmt.Sprintf("%s%s=%v", before, name, gates[name])
		before = ", "
	}
	return text
}

// printTargetNotes prints notes about an unsupported kubelet version and about feature gates that
// have no effect.
func (a *app) printTargetNotes(t config.Target) {
	if minorVersion(t.KubeletVersion) > minorVersion(config.NewestKubelet) {
		a.Note("kubelet %s is newer than the versions that regcred supports; checking for version %s instead", t.KubeletVersion, config.NewestKubelet)
	}
	if unknown := slices.DeleteFunc(slices.Sorted(maps.Keys(t.FeatureGates)), node.IsProviderGate); len(unknown) > 0 {
		a.Note("ignored feature gates: %s; credential providers depend only on %s",
			strings.Join(unknown, ", "), strings.Join(config.FeatureGates(), ", "))
	}
}

// minorVersion returns 33 for 1.33, v1.33.4 and 1.33-rc.0, and 0 for an invalid version.
func minorVersion(version string) int {
	_, rest, _ := strings.Cut(version, ".")
	n := 0
	_, _ = fmt.Sscanf(rest, "%d", &n)
	return n
}
