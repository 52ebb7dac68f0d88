// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package report

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/shown"
	"github.com/regcred/regcred/lint"
	"github.com/regcred/regcred/lint/pullsecret"
)

// Validation is the result of "regcred validate -o json".
type Validation struct {
	Path           string            `json:"path"`
	Valid          bool              `json:"valid"`          // the kubelet would start or, if none is named, regcred would; or read the credentials
	KubeletVersion string            `json:"kubeletVersion"` // "" if regcred alone reads a file of it
	FeatureGates   map[string]bool   `json:"featureGates,omitempty"`
	BinDir         string            `json:"binDir,omitempty"` // if executables were checked too
	Providers      int               `json:"providers"`
	Hash           string            `json:"hash,omitempty"`
	Credentials    *Credentials      `json:"credentials,omitempty"` // of a docker config or pull secrets, in place of a configuration
	Problems       []Problem         `json:"problems"`              // what the kubelet rejects
	Findings       []finding.Finding `json:"findings"`              // lint findings
	Suppressed     int               `json:"suppressed,omitempty"`  // findings that comments suppress; see [Validation.Select]

	text func(file string) []byte
}

// Credentials says what a file with credentials is.
type Credentials struct {
	Kind    pullsecret.Kind `json:"kind"`
	Secrets int             `json:"secrets,omitempty"` // in a manifest
	Logins  int             `json:"logins"`            // for which a kubelet has a user name
}

// ValidateCredentials says what a kubelet and the linter have against a docker
// config or a manifest with Secrets; nil if a file is neither.
func ValidateCredentials(path string, data []byte, now time.Time) *Validation {
	c := pullsecret.Check(path, data, now)
	if c == nil {
		return nil
	}
	return &Validation{
		Path:        path,
		Valid:       !c.Refused,
		Credentials: &Credentials{c.Kind, c.Secrets, c.Credentials},
		Problems:    []Problem{},
		Findings:    append([]finding.Finding{}, c.Findings...),
		text:        func(string) []byte { return data },
	}
}

// Problem is a [config.FieldError] in -o json.
type Problem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	Value   string `json:"value,omitempty"`

	text string
}

// Kubelet is what a configuration is judged for. The zero value is no kubelet in
// particular.
type Kubelet struct {
	Version      string // such as 1.33
	FeatureGates map[string]bool
	// Named says that somebody asked about this kubelet. Otherwise files of the
	// predecessor, which no kubelet reads, are judged for regcred.
	Named bool
}

// Target is what package config is asked about.
func (k Kubelet) Target() config.Target {
	t := config.Target{FeatureGates: k.FeatureGates}
	if k.Named {
		t.KubeletVersion = k.Version
	}
	return t
}

// Validate says what a kubelet and the linter have against the configuration at
// path, about the executables too if binDir says where they are. cfg and loading
// are what [config.Load] or [config.Parse] returned. An error is about the
// kubelet, not about the configuration.
func Validate(path string, cfg *config.Config, loading error, k Kubelet, binDir string) (*Validation, error) {
	v := &Validation{
		Path:           path,
		KubeletVersion: strings.TrimPrefix(k.Version, "v"),
		FeatureGates:   k.FeatureGates,
		BinDir:         binDir,
		Problems:       []Problem{},
		Findings:       []finding.Finding{},
	}
	if loading != nil {
		v.addProblems(loading)
		return v, nil
	}
	v.Providers, v.Hash = len(cfg.Providers), cfg.Hash()
	if !k.Named && slices.ContainsFunc(cfg.Files(), (*config.File).Predecessor) {
		v.KubeletVersion = ""
	}
	err := cfg.ValidateFor(k.Target())
	if _, ok := errors.AsType[*config.FieldError](err); err != nil && !ok {
		return nil, err
	}
	v.addProblems(err)
	v.addFindings(Findings(cfg, binDir))
	v.text = TextOf(cfg)
	v.Valid = len(v.Problems) == 0
	return v, nil
}

// Findings are the linter's, about the executables too if it is known where
// they are.
func Findings(cfg *config.Config, binDir string) []finding.Finding {
	list := lint.Check(cfg)
	if binDir != "" {
		list = append(list, lint.BinDir(cfg, binDir)...)
	}
	return list
}

// Select applies f to the findings. It does not change whether the configuration is
// valid.
func (v *Validation) Select(f *Filter) {
	if v.text != nil {
		v.Findings, v.Suppressed = f.Apply(v.Findings, v.text)
	}
}

func (v *Validation) addProblems(err error) {
	for _, e := range shown.Flatten(err) {
		v.Problems = append(v.Problems, toProblem(e))
	}
}

// addFindings puts those for which a kubelet does not start among the problems.
func (v *Validation) addFindings(findings []finding.Finding) {
	for _, f := range findings {
		if StopsKubelet(f) {
			v.addProblems(&config.FieldError{File: f.File, Line: f.Line, Column: f.Column, Path: f.Path, Msg: f.Message})
		} else {
			v.Findings = append(v.Findings, f)
		}
	}
}

func toProblem(err error) Problem {
	if e, ok := errors.AsType[*config.FieldError](err); ok {
		return Problem{e.File, e.Line, e.Column, e.Path, e.Msg, e.Value, err.Error()}
	}
	return Problem{Message: err.Error(), text: err.Error()}
}

// String is the problem with its place, on one line.
func (p *Problem) String() string { return p.text }

// what says what is wrong; where is said beside it.
func (p *Problem) what() string {
	text := p.Message
	if p.Path != "" {
		text = p.Path + ": " + text
	}
	if p.Value != "" {
		text += ": " + p.Value
	}
	return text
}

// Fix returns how to fix a finding, or "". A suggestion is a value to use, or a
// sentence that says what to do.
func Fix(f finding.Finding) string {
	if f.Fix == "" || strings.Contains(f.Fix, " ") {
		return f.Fix
	}
	return "use " + f.Fix
}
