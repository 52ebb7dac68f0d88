// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/lint"
)

// validateFlags are the flags of "regcred validate".
type validateFlags struct {
	output         *choice
	strict         bool
	kubeletVersion string
	kubelet        bool // asked about a kubelet by name: see target
	gates          map[string]bool
}

// target is what the configuration is judged for. With no kubelet named, files
// of the predecessor, which no kubelet reads, are judged for regcred.
func (v *validateFlags) target() config.Target {
	t := config.Target{FeatureGates: v.gates}
	if v.kubelet {
		t.KubeletVersion = v.kubeletVersion
	}
	return t
}

// validateReport is the result of "regcred validate -o json".
type validateReport struct {
	Path           string          `json:"path"`
	Valid          bool            `json:"valid"`          // the kubelet would start or, if none is named, regcred would
	KubeletVersion string          `json:"kubeletVersion"` // "" if regcred alone reads a file of it
	FeatureGates   map[string]bool `json:"featureGates,omitempty"`
	BinDir         string          `json:"binDir,omitempty"` // if executables were checked too
	Providers      int             `json:"providers"`
	Hash           string          `json:"hash,omitempty"`
	Problems       []problemJSON   `json:"problems"` // what the kubelet rejects
	Findings       []lint.Finding  `json:"findings"` // what it accepts, but should not
}

// problemJSON is a config.FieldError in -o json.
type problemJSON struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	Value   string `json:"value,omitempty"`

	text string
}

func (a *app) validateCmd() *cobra.Command {
	v := &validateFlags{}
	cmd := &cobra.Command{
		Use:   "validate [PATH]",
		Short: "Check a credential provider configuration",
		Long: `validate says whether a kubelet would start with the configuration at PATH, a
file or a directory, and what would stop it: every problem at once, with file,
line and column. Then it lists what the kubelet accepts although it cannot work
or is dangerous. Given a --bin-dir it looks at the executables too. It runs no
plugin.

A RegistryCredentialConfig, which regcred reads and no kubelet does, is judged
for regcred, with a warning; with --kubelet-version or --feature-gates it is
refused.

The exit code is 1 if the kubelet would not start or a finding is an error, and
with --strict also if one is a warning; otherwise it is 0.`,
		Example: `  regcred validate providers.yaml
  regcred validate --strict --bin-dir /opt/plugins /etc/kubernetes/credential-providers
  regcred validate --kubelet-version 1.33 providers.yaml
  sudo regcred validate --as-kubelet -o json
  regcred validate -o sarif providers.yaml > regcred.sarif`,
		Args: atMost("PATH"),
	}
	v.output = addOutputFlag(cmd, "text", "json", "sarif")
	f := cmd.Flags()
	f.BoolVar(&v.strict, "strict", false, "fail on warnings too")
	f.StringVar(&v.kubeletVersion, "kubelet-version", config.NewestKubelet, "the `version` of the kubelet to check for, such as 1.33")
	var gates []string
	f.StringSliceVar(&gates, "feature-gates", nil, "`A=true,B=false`: gates of that kubelet that are not at their default")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if v.gates, err = parseGates(gates); err != nil {
			return err
		}
		v.kubelet = f.Changed("kubelet-version") || f.Changed("feature-gates")
		return a.validate(v, strings.Join(args, ""))
	}
	return cmd
}

func parseGates(list []string) (map[string]bool, error) {
	gates := map[string]bool{}
	for _, s := range list {
		name, value, _ := strings.Cut(s, "=")
		on, err := strconv.ParseBool(value)
		if err != nil || name == "" {
			return nil, usageError("", "--feature-gates %q: want NAME=true or NAME=false", s)
		}
		gates[name] = on
	}
	return gates, nil
}

func (a *app) validate(v *validateFlags, path string) error {
	o, err := a.resolve(path, false)
	if err != nil {
		return err
	}
	r, err := a.check(v, o)
	if err != nil {
		return err
	}
	a.noteTarget(v.target())
	if v.output.value == "sarif" {
		err = a.WriteForeignJSON(r.sarif())
	} else {
		err = a.print(v.output, r, r.render)
	}
	return cmp.Or(err, r.failure(v.strict))
}

// check loads, validates and lints.
func (a *app) check(v *validateFlags, o *node.Origin) (*validateReport, error) {
	r := &validateReport{
		Path:           o.Config,
		KubeletVersion: strings.TrimPrefix(v.kubeletVersion, "v"),
		FeatureGates:   v.gates,
		BinDir:         o.BinDir,
		Problems:       []problemJSON{},
		Findings:       []lint.Finding{},
	}
	cfg, err := config.Load(o.Config)
	if err := node.Denied(err); err != nil {
		return nil, err
	}
	if err != nil {
		r.addProblems(err)
		return r, nil
	}
	if err := a.node().CheckFound(o, cfg); err != nil {
		return nil, err
	}
	r.Providers, r.Hash = len(cfg.Providers), cfg.Hash()
	if !v.kubelet && slices.ContainsFunc(cfg.Files(), (*config.File).Predecessor) {
		r.KubeletVersion = ""
	}
	err = cfg.ValidateFor(v.target())
	if _, ok := errors.AsType[*config.FieldError](err); err != nil && !ok {
		return nil, usageError("", "--kubelet-version: %w", err) // of the target, not of the configuration
	}
	r.addProblems(err)
	for _, f := range findings(cfg, o.BinDir) {
		if doctor.StopsKubelet(f) {
			r.Problems = append(r.Problems, toProblem(&config.FieldError{File: f.File, Line: f.Line, Column: f.Column, Path: f.Path, Msg: f.Message}))
		} else {
			r.Findings = append(r.Findings, f)
		}
	}
	r.Valid = len(r.Problems) == 0
	return r, nil
}

// findings are the linter's, about the executables too if it is known where
// they are.
func findings(cfg *config.Config, binDir string) []lint.Finding {
	list := lint.Check(cfg)
	if binDir != "" {
		list = append(list, lint.BinDir(cfg, binDir)...)
	}
	return list
}

func toProblem(err error) problemJSON {
	if e, ok := errors.AsType[*config.FieldError](err); ok {
		return problemJSON{e.File, e.Line, e.Column, e.Path, e.Msg, e.Value, err.Error()}
	}
	return problemJSON{Message: err.Error(), text: err.Error()}
}

func (r *validateReport) addProblems(err error) {
	for _, e := range terminal.Flatten(err) {
		r.Problems = append(r.Problems, toProblem(e))
	}
}

// failure is the answer by exit code.
func (r *validateReport) failure(strict bool) error {
	if !r.Valid {
		return exit(exitFailed)
	}
	count := map[lint.Severity]int{}
	for _, f := range r.Findings {
		count[f.Severity]++
	}
	serious := count[lint.SeverityError] + count[lint.SeverityWarning]
	switch {
	case strict && serious > 0:
		return fmt.Errorf("--strict: %s", terminal.Count(serious, "finding"))
	case count[lint.SeverityError] > 0: // as doctor has it
		return exit(exitFailed)
	}
	return nil
}

func (r *validateReport) render(t *terminal.Text) {
	for _, p := range r.Problems {
		t.Line(terminal.Error, p.text)
	}
	accepted, refused := "accepted by regcred; no kubelet starts with it", "regcred refuses it, and no kubelet starts with it"
	if r.KubeletVersion != "" {
		kubelet := "kubelet " + r.KubeletVersion + describeGates(r.FeatureGates)
		accepted, refused = "accepted by "+kubelet, kubelet+" would not start"
	}
	if r.Valid {
		t.Line(terminal.OK, fmt.Sprintf("%s: %s, %s", r.Path, terminal.Count(r.Providers, "provider"), accepted))
		t.Line("", r.Hash)
	} else {
		t.Line(terminal.Error, fmt.Sprintf("%s: %s: %s", r.Path, terminal.Count(len(r.Problems), "problem"), refused))
	}
	for _, f := range r.Findings {
		t.Line(terminal.Mark(f.Severity), doctor.FindingText(f))
		if f.Suggestion != "" {
			t.Below("instead: " + f.Suggestion)
		}
	}
}

func describeGates(gates map[string]bool) string {
	text, before := "", " with "
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		text += fmt.Sprintf("%s%s=%v", before, name, gates[name])
		before = ", "
	}
	return text
}

// noteTarget says what of the target the verdict does not depend on.
func (a *app) noteTarget(t config.Target) {
	if minorOf(t.KubeletVersion) > minorOf(config.NewestKubelet) {
		a.Note("kubelet %s is newer than those that regcred knows; it is judged as %s", t.KubeletVersion, config.NewestKubelet)
	}
	known := []string{"KubeletCredentialProviders", "KubeletServiceAccountTokenForCredentialProviders"}
	unknown := slices.DeleteFunc(slices.Sorted(maps.Keys(t.FeatureGates)), func(gate string) bool { return slices.Contains(known, gate) })
	if len(unknown) > 0 {
		a.Note("of --feature-gates these are ignored: %s; credential providers depend on %s",
			strings.Join(unknown, ", "), strings.Join(known, " and "))
	}
}

// minorOf is the 33 of 1.33, v1.33.4 and 1.33-rc.0; 0 of what is no version.
func minorOf(version string) int {
	_, rest, _ := strings.Cut(version, ".")
	n := 0
	_, _ = fmt.Sscanf(rest, "%d", &n)
	return n
}
