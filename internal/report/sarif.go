// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package report

import (
	"net/url"
	"path/filepath"
	"slices"

	"github.com/regcred/regcred/finding"
)

// sarifLog contains the parts of SARIF 2.1.0 (OASIS) that findings need. Code scanners
// display it next to the lines of a file.
type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool        sarifTool         `json:"tool"`
	Invocations []sarifInvocation `json:"invocations,omitempty"`
	ColumnKind  string            `json:"columnKind"`
	Results     []sarifResult     `json:"results"`
	Properties  *sarifProperties  `json:"properties,omitempty"`
}

// sarifProperties has the number of findings that comments suppress.
type sarifProperties struct {
	Suppressed int `json:"suppressed"`
}

// sarifInvocation is set if a file could not be checked, because a log without results
// means success.
type sarifInvocation struct {
	Successful    bool                `json:"executionSuccessful"`
	Notifications []sarifNotification `json:"toolExecutionNotifications"`
}

type sarifNotification struct {
	Level   string    `json:"level"`
	Message sarifText `json:"message"`
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
	ID      string `json:"id"`
	HelpURI string `json:"helpUri"`
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

const home = "https://github.com/regcred/regcred"

// ruleRefused is the rule for errors that prevent the kubelet from starting.
const ruleRefused = "kubelet-refuses"

// SARIF converts validations to SARIF. read returns the content of a file, or nil;
// columns are omitted without it. failed contains the errors for files that could not
// be checked.
func SARIF(version string, read func(file string) []byte, list []*Validation, failed []error) any {
	files := map[string]*columns{}
	in := func(file string) *columns {
		if _, known := files[file]; !known {
			files[file] = columnsOf(read(file))
		}
		return files[file]
	}
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "regcred", Version: version, InformationURI: home, Rules: []sarifRule{}}
	add := func(rule string, severity finding.Severity, file string, line, column int, text string) {
		if known := (sarifRule{rule, helpFor(rule, severity)}); !slices.Contains(run.Tool.Driver.Rules, known) {
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, known)
		}
		result := sarifResult{RuleID: rule, Level: sarifLevel(severity), Message: sarifText{text}}
		if file != "" {
			at := sarifPhysical{Artifact: sarifArtifact{sarifURI(file)}}
			if line > 0 {
				at.Region = &sarifRegion{line, in(file).inCharacters(line, column)}
			}
			result.Locations = []sarifLocation{{at}}
		}
		run.Results = append(run.Results, result)
	}
	for _, v := range list {
		for _, p := range v.Problems {
			add(ruleRefused, finding.SeverityError, p.File, p.Line, p.Column, p.description())
		}
		for _, f := range v.Findings {
			text := f.Message
			if fix := Fix(f); fix != "" {
				text += "; fix: " + fix
			}
			add(f.Rule, f.Severity, f.File, f.Line, f.Column, text)
		}
	}
	suppressed := 0
	for _, v := range list {
		suppressed += v.Suppressed
	}
	if suppressed > 0 {
		run.Properties = &sarifProperties{suppressed}
	}
	if len(failed) > 0 {
		run.Invocations = []sarifInvocation{{}}
	}
	for _, err := range failed {
		in := &run.Invocations[0]
		in.Notifications = append(in.Notifications, sarifNotification{sarifLevel(finding.SeverityError), sarifText{err.Error()}})
	}
	return sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}}
}

// RulesURL is the page that explains the lint rules.
const RulesURL = home + "/blob/main/docs/lint/README.md"

// helpFor returns the URL that explains a rule.
func helpFor(rule string, severity finding.Severity) string {
	if rule == ruleRefused {
		return home + "/blob/main/docs/cli/validate.md"
	}
	return RulesURL + "#" + rule + "-" + string(severity)
}

// sarifLevel returns the SARIF level for a severity.
func sarifLevel(s finding.Severity) string {
	switch s {
	case finding.SeverityError, finding.SeverityWarning:
		return string(s)
	case finding.SeverityInfo:
		return "note"
	}
	return "none"
}

// sarifURI converts a path to a URI.
func sarifURI(path string) string {
	path = filepath.Clean(path)
	u := url.URL{Path: filepath.ToSlash(path)}
	if filepath.IsAbs(path) {
		u.Scheme = "file"
		if filepath.VolumeName(path) != "" {
			u.Path = "/" + u.Path
		}
	}
	return u.String()
}
