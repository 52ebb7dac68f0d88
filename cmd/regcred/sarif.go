// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"net/url"
	"path/filepath"
	"slices"

	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/lint"
)

// sarifLog is what code scanners show beside the lines of a file: SARIF 2.1.0
// (OASIS), as far as a verdict on a configuration needs it.
type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool       sarifTool     `json:"tool"`
	ColumnKind string        `json:"columnKind"`
	Results    []sarifResult `json:"results"`
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name           string      `json:"name"`
	Version        string      `json:"version"`
	InformationURI string      `json:"informationUri"`
	Rules          []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID string `json:"id"`
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	Level     string          `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations,omitempty"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifLocation struct {
	Physical sarifPhysical `json:"physicalLocation"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
	Region   *sarifRegion  `json:"region,omitempty"`
}

type sarifArtifact struct {
	URI string `json:"uri"`
}

type sarifRegion struct {
	StartLine   int `json:"startLine"`
	StartColumn int `json:"startColumn,omitempty"`
}

// ruleRefused is the rule of what keeps a kubelet from starting.
const ruleRefused = "kubelet-refuses"

// sarif is the report in SARIF.
func (r *validateReport) sarif() sarifLog {
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "regcred", Version: buildVersion(), InformationURI: "https://github.com/regcred/regcred", Rules: []sarifRule{}}
	add := func(rule string, severity lint.Severity, file string, line, column int, text string) {
		if known := (sarifRule{rule}); !slices.Contains(run.Tool.Driver.Rules, known) {
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, known)
		}
		result := sarifResult{RuleID: rule, Level: sarifLevel(severity), Message: sarifText{text}}
		if file != "" {
			at := sarifPhysical{Artifact: sarifArtifact{sarifURI(file)}}
			if line > 0 {
				at.Region = &sarifRegion{line, column}
			}
			result.Locations = []sarifLocation{{at}}
		}
		run.Results = append(run.Results, result)
	}
	for _, p := range r.Problems {
		add(ruleRefused, lint.SeverityError, p.File, p.Line, p.Column, p.what())
	}
	for _, f := range r.Findings {
		text := f.Message
		if f.Suggestion != "" {
			text += "; instead: " + f.Suggestion
		}
		add(f.Rule, f.Severity, f.File, f.Line, f.Column, text)
	}
	return sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}}
}

// what says what is wrong; where is said beside it.
func (p *problemJSON) what() string {
	text := p.Message
	if p.Path != "" {
		text = p.Path + ": " + text
	}
	if p.Value != "" {
		text += ": " + p.Value
	}
	return text
}

// sarifLevel is the word that SARIF has for a severity.
func sarifLevel(s lint.Severity) string {
	switch terminal.Mark(s) {
	case terminal.Error, terminal.Warning:
		return string(s)
	case terminal.Info:
		return "note"
	}
	return "none"
}

// sarifURI is a path as SARIF names a file.
func sarifURI(path string) string {
	u := url.URL{Path: filepath.ToSlash(path)}
	if filepath.IsAbs(path) {
		u.Scheme = "file"
		if filepath.VolumeName(path) != "" {
			u.Path = "/" + u.Path
		}
	}
	return u.String()
}
