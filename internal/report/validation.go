// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/embedded"
	"github.com/regcred/regcred/internal/textfmt"
	"github.com/regcred/regcred/lint"
	"github.com/regcred/regcred/lint/pullsecret"
)

// Validation is the result of "regcred validate -o json".
type Validation struct {
	Path           string            `json:"path"`
	Valid          bool              `json:"valid"`          // the kubelet accepts the file; for a RegistryCredentialConfig, regcred accepts the file
	KubeletVersion string            `json:"kubeletVersion"` // "" for a file that only regcred reads
	FeatureGates   map[string]bool   `json:"featureGates,omitempty"`
	BinDir         string            `json:"binDir,omitempty"` // set if executables were also checked
	Where          string            `json:"where,omitempty"`  // field of the file that contains the configuration; "" if the file is the configuration
	Line           int               `json:"line,omitempty"`   // line at which the embedded configuration begins
	Providers      int               `json:"providers"`
	Hash           string            `json:"hash,omitempty"`
	Credentials    *CredentialFile   `json:"credentials,omitempty"` // set for a docker config or pull secrets
	PullSecrets    *PullSecretConfig `json:"pullSecrets,omitempty"` // set for a PullSecretConfig
	RuntimeFile    string            `json:"runtimeFile,omitempty"` // kind of a container runtime's file, such as "hosts.toml"
	Problems       []Problem         `json:"problems"`              // reasons why the kubelet rejects the file
	Findings       []finding.Finding `json:"findings"`              // lint findings
	Suppressed     int               `json:"suppressed,omitempty"`  // number of findings suppressed by comments; see [Validation.ApplyFilter]

	readFile func(file string) []byte
}

// CredentialFile describes a file with credentials.
type CredentialFile struct {
	Kind    pullsecret.Kind `json:"kind"`
	Secrets int             `json:"secrets,omitempty"` // number of Secrets in a manifest
	Logins  int             `json:"logins"`            // number of registries for which the kubelet finds a user name
}

// PullSecretConfig describes a file of regcred-controller.
type PullSecretConfig struct {
	Targets int `json:"targets"` // number of registries and images; 0 if the file is invalid
}

// ValidatePullSecretConfig returns the result for a PullSecretConfig. err is the parser's error.
func ValidatePullSecretConfig(path string, targets int, err error) *Validation {
	v := &Validation{Path: path, Valid: err == nil, PullSecrets: &PullSecretConfig{targets}, Problems: []Problem{}, Findings: []finding.Finding{}}
	v.addProblems(err)
	return v
}

// ValidateCredentials checks a docker config or a manifest with Secrets. It returns nil
// for other files, and an error for a file that exceeds a limit of regcred.
func ValidateCredentials(path string, data []byte, now time.Time) (*Validation, error) {
	c := pullsecret.Check(path, data, now)
	switch {
	case c == nil:
		return nil, nil
	case c.Unchecked != nil:
		return nil, fmt.Errorf("%s: %w", path, c.Unchecked)
	}
	return &Validation{
		Path:        path,
		Valid:       !c.Rejected,
		Credentials: &CredentialFile{c.Kind, c.Secrets, c.Credentials},
		Problems:    []Problem{},
		Findings:    append([]finding.Finding{}, c.Findings...),
		readFile:    func(string) []byte { return data },
	}, nil
}

// ValidateEmbedded checks a configuration inside a file. Positions refer to the file with the text
// data.
func ValidateEmbedded(path string, data []byte, c embedded.Config, k Kubelet, binDir string) (*Validation, error) {
	cfg, err := config.Parse(path, c.Text)
	v, err := Validate(path, cfg, err, k, binDir)
	if err != nil {
		return nil, err
	}
	v.Where, v.Line = c.Where, c.Line
	v.readFile = func(string) []byte {
		if c.Exact {
			return c.Text
		}
		return data
	}
	for i := range v.Problems {
		p := &v.Problems[i]
		if p.File != path {
			continue
		}
		if p.Line < c.Line || !c.Exact { // line 1 of the configuration
			p.Line, p.Column = c.Line, c.Column
		}
		p.Path = joinPath(&c, p.Path)
		p.text = (&config.FieldError{File: p.File, Line: p.Line, Column: p.Column, Path: p.Path, Msg: p.Message, Value: p.Value}).Error()
	}
	for i := range v.Findings {
		f := &v.Findings[i]
		if f.File != path {
			continue
		}
		if f.Line < c.Line || !c.Exact {
			f.Line, f.Column = c.Line, c.Column
		}
		f.Path = joinPath(&c, f.Path)
	}
	return v, nil
}

// joinPath returns the path of a field of an embedded configuration.
func joinPath(c *embedded.Config, path string) string {
	switch {
	case path == "":
		return c.Where
	case c.IsText:
		return c.Where + ": " + path
	}
	return c.Where + "." + path
}

// NewRuntimeValidation returns the result for a configuration file of a container runtime, without
// findings. data is nil for a directory.
func NewRuntimeValidation(path, kind string, data []byte) *Validation {
	return &Validation{
		Path: path, Valid: true, RuntimeFile: kind, Problems: []Problem{}, Findings: []finding.Finding{},
		readFile: func(string) []byte { return data },
	}
}

// Problem is the JSON form (-o json) of a [config.FieldError].
type Problem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	Value   string `json:"value,omitempty"`

	text string
}

// Kubelet describes the kubelet to validate for. The zero value means the newest known
// version.
type Kubelet struct {
	Version      string // such as 1.33
	FeatureGates map[string]bool
	// Explicit is true if the user selected this kubelet. If false,
	// RegistryCredentialConfig files, which no kubelet reads, are accepted.
	Explicit bool
}

// Target converts k for package config.
func (k Kubelet) Target() config.Target {
	t := config.Target{FeatureGates: k.FeatureGates}
	if k.Explicit {
		t.KubeletVersion = k.Version
	}
	return t
}

// Validate checks the configuration at path and, if binDir is not empty, its
// executables. cfg and loading are the results of [config.Load] or [config.Parse].
// Validate returns an error only for an invalid k, not for an invalid configuration.
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
	if !k.Explicit && slices.ContainsFunc(cfg.Files(), (*config.File).OutOfTree) {
		v.KubeletVersion = ""
	}
	err := cfg.ValidateFor(k.Target())
	if _, ok := errors.AsType[*config.FieldError](err); err != nil && !ok {
		return nil, err
	}
	v.addProblems(err)
	v.addFindings(LintFindings(cfg, binDir))
	if k.Explicit {
		for _, f := range config.KnownFaults(cfg, k.Target(), config.NodeSettings{}) {
			f.File = path
			v.Findings = append(v.Findings, f)
		}
	}
	v.readFile = ConfigTextReader(cfg)
	v.Valid = len(v.Problems) == 0
	return v, nil
}

// LintFindings returns the lint findings for cfg and, if binDir is not empty, for its
// executables.
func LintFindings(cfg *config.Config, binDir string) []finding.Finding {
	list := lint.Check(cfg)
	if binDir != "" {
		list = append(list, lint.BinDir(cfg, binDir)...)
	}
	return list
}

// ApplyFilter removes the findings that f does not select. It does not change Valid.
func (v *Validation) ApplyFilter(f *Filter) {
	if v.readFile != nil {
		v.Findings, v.Suppressed = f.Apply(v.Findings, v.readFile)
	}
}

func (v *Validation) addProblems(err error) {
	for _, e := range textfmt.FlattenErrors(err) {
		p := Problem{Message: e.Error(), text: e.Error()}
		if f, ok := errors.AsType[*config.FieldError](e); ok {
			p = Problem{f.File, f.Line, f.Column, f.Path, f.Msg, f.Value, e.Error()}
		}
		v.Problems = append(v.Problems, p)
	}
}

// addFindings adds lint findings. Findings that stop the kubelet are added as problems.
func (v *Validation) addFindings(findings []finding.Finding) {
	for _, f := range findings {
		if StopsKubelet(f) {
			v.addProblems(&config.FieldError{File: f.File, Line: f.Line, Column: f.Column, Path: f.Path, Msg: f.Message})
		} else {
			v.Findings = append(v.Findings, f)
		}
	}
}

// String returns the problem with its position on one line.
func (p *Problem) String() string { return p.text }

// describe returns the problem without the position.
func (p *Problem) describe() string {
	text := p.Message
	if p.Path != "" {
		text = p.Path + ": " + text
	}
	if p.Value != "" {
		text += ": " + p.Value
	}
	return text
}

// FindingFix returns how to fix a finding, or "". A finding's suggestion is either a value to
// use or a sentence that describes what to do.
func FindingFix(f finding.Finding) string {
	if f.Fix == "" || strings.Contains(f.Fix, " ") {
		return f.Fix
	}
	return "use " + f.Fix
}
