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
	"github.com/regcred/regcred/internal/embedded"
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

PATH can also be a docker config.json, an auth.json, a .dockercfg, a manifest
with Secrets, or a container runtime's registries.yaml, hosts.toml, certs.d
directory, config.toml or registries.conf; the type is detected. Secret values
are never shown. A PullSecretConfig is checked for regcred-controller.

A configuration inside another file is found and checked too: a Talos or EKS
machine configuration, a Cluster API object, a ConfigMap, user data, a
MachineConfig, Helm values, a shell script or a Terraform file. Positions refer
to that file.

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
		results, err := a.validatePath(ctx, v, path)
		if err != nil {
			errs = append(errs, err) // continue with the other paths
			continue
		}
		for _, r := range results {
			r.ApplyFilter(&v.rules)
		}
		several = several || len(results) > 1
		list = append(list, results...)
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
// if only one is readable, or if a file contains several configurations.
func (a *app) printValidations(output *enumFlag, list []*report.Validation, several bool) error {
	var result any = list[0]
	if several {
		result = map[string][]*report.Validation{"validations": list}
	}
	return a.printResult(output, result, func(t *terminal.Text) {
		found, foundMirror := false, false
		for i, r := range list {
			if i > 0 {
				t.BlankLine()
			}
			renderValidation(t, r)
			found = found || len(r.Findings) > 0 && r.RuntimeFile == ""
			foundMirror = foundMirror || len(r.Findings) > 0 && r.RuntimeFile != ""
		}
		if found || foundMirror {
			t.BlankLine()
		}
		if found {
			t.Quote("", "Rules: "+report.RulesURL)
		}
		if foundMirror {
			t.Quote("", "Rules: "+report.MirrorRulesURL)
		}
	})
}

// validatePath checks a runtime's file, a docker config, a manifest with Secrets, or configurations
// inside another file. Otherwise, it loads, validates and lints a configuration.
func (a *app) validatePath(ctx context.Context, v *validateFlags, path string) ([]*report.Validation, error) {
	data := readFileIfPossible(path) // if nil, config.Load returns the error
	if path != "" {
		if controlled.IsPullSecretConfig(data) {
			f, err := controlled.Parse(path, data)
			if err != nil {
				return []*report.Validation{report.ValidatePullSecretConfig(path, 0, err)}, nil
			}
			return []*report.Validation{report.ValidatePullSecretConfig(path, len(f.Targets()), nil)}, nil
		}
		if r, err := doctor.ValidateRuntimeFile(path, data); r != nil || err != nil {
			return []*report.Validation{r}, err
		}
		if inside := embedded.Find(data); len(inside) > 0 {
			return a.validateEmbedded(ctx, v, path, data, inside)
		}
	}
	if data != nil {
		if r, err := report.ValidateCredentials(path, data, time.Now()); r != nil || err != nil {
			return []*report.Validation{r}, cmp.Or(node.UncheckedError(err), err)
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
	return []*report.Validation{r}, nil
}

// validateEmbedded checks configurations inside a file, and the file's Secrets.
func (a *app) validateEmbedded(ctx context.Context, v *validateFlags, path string, data []byte, inside []embedded.Config) (list []*report.Validation, err error) {
	o, err := a.resolveOrigin(ctx, path, false)
	if err != nil {
		return nil, err
	}
	for _, c := range inside {
		r, err := report.ValidateEmbedded(path, data, c, v.kubelet, o.BinDir)
		if err != nil {
			return nil, usageError("", "--kubelet-version: %w", err)
		}
		list = append(list, r)
	}
	if r, err := report.ValidateCredentials(path, data, time.Now()); err == nil && r != nil && r.Credentials.Secrets > 0 {
		list = append(list, r)
	}
	return list, nil
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
	if r.RuntimeFile != "" {
		renderRuntimeFile(t, r)
		renderFindings(t, r)
		return
	}
	accepted, refused := "accepted by regcred, but no kubelet would start with this configuration", "rejected by regcred, and no kubelet would start with this configuration"
	if r.KubeletVersion != "" {
		kubelet := "kubelet " + r.KubeletVersion + featureGatesText(r.FeatureGates)
		accepted, refused = "accepted by "+kubelet, kubelet+" would not start"
	}
	path := r.Path
	if r.Where != "" {
		path = fmt.Sprintf("%s:%d: %s", r.Path, r.Line, r.Where)
	}
	if r.Valid {
		t.MarkedLine(terminal.MarkOK, fmt.Sprintf("%s: %s, %s", path, terminal.FormatCount(r.Providers, "provider"), accepted))
		t.MarkedLine("", r.Hash)
	} else {
		t.MarkedLine(terminal.MarkError, fmt.Sprintf("%s: %s: %s", path, terminal.FormatCount(len(r.Problems), "problem"), refused))
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

// renderRuntimeFile prints the summary of a container runtime's file.
func renderRuntimeFile(t *terminal.Text, r *report.Validation) {
	mark, text := terminal.MarkOK, "no problems found"
	if n := len(r.Findings); n > 0 {
		mark, text = terminal.Mark(finding.Worst(r.Findings)), terminal.FormatCount(n, "finding")
	}
	t.MarkedLine(mark, fmt.Sprintf("%s: %s: %s", r.Path, r.RuntimeFile, text))
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
