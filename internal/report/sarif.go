// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package report

import (
	"bytes"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/regcred/regcred/finding"
)

// sarifLog contains the parts of SARIF 2.1.0 (OASIS) that are needed for findings. Code
// scanners display them next to the lines of a file.
type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool struct {
		Driver sarifDriver `json:"driver"`
	} `json:"tool"`
	Invocations []sarifInvocation `json:"invocations,omitempty"`
	ColumnKind  string            `json:"columnKind"`
	Results     []sarifResult     `json:"results"`
	Properties  map[string]int    `json:"properties,omitempty"` // number of findings suppressed by comments
}

// sarifInvocation is set if a file could not be checked, because a log without results
// would mean success.
type sarifInvocation struct {
	Successful    bool                `json:"executionSuccessful"`
	Notifications []sarifNotification `json:"toolExecutionNotifications"`
}

type sarifNotification struct {
	Level   string    `json:"level"`
	Message sarifText `json:"message"`
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
	Physical struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region *sarifRegion `json:"region,omitempty"`
	} `json:"physicalLocation"`
}

type sarifRegion struct {
	StartLine   int `json:"startLine"`
	StartColumn int `json:"startColumn,omitempty"`
}

const projectURL = "https://github.com/regcred/regcred"

// kubeletStopRule is the rule for errors that prevent the kubelet from starting.
const kubeletStopRule = "kubelet-refuses"

// AllFindings returns a validation's problems and findings for SARIF.
func (v *Validation) AllFindings() (list []finding.Finding) {
	for _, p := range v.Problems {
		list = append(list, finding.Finding{Rule: kubeletStopRule, Severity: finding.SeverityError, File: p.File, Line: p.Line, Column: p.Column, Message: p.describe()})
	}
	return append(list, v.Findings...)
}

// SARIF converts findings to SARIF. read returns the contents of a file, or nil. Without the
// contents, columns are omitted. suppressed is the number of findings suppressed by comments.
// failed contains the errors for files that could not be checked.
func SARIF(version string, read func(file string) []byte, list []finding.Finding, suppressed int, failed []error) any {
	files := map[string]*columnConverter{}
	in := func(file string) *columnConverter {
		if _, known := files[file]; !known {
			files[file] = newColumnConverter(read(file))
		}
		return files[file]
	}
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "regcred", Version: version, InformationURI: projectURL, Rules: []sarifRule{}}
	for _, f := range list {
		if known := (sarifRule{f.Rule, ruleHelpURL(f.Rule, f.Severity)}); !slices.Contains(run.Tool.Driver.Rules, known) {
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, known)
		}
		text := f.Message
		if fix := FindingFix(f); fix != "" {
			text += "; fix: " + fix
		}
		result := sarifResult{RuleID: f.Rule, Level: sarifLevel(f.Severity), Message: sarifText{text}}
		if f.File != "" {
			result.Locations = []sarifLocation{{}}
			at := &result.Locations[0].Physical
			at.Artifact.URI = sarifURI(f.File)
			if f.Line > 0 {
				at.Region = &sarifRegion{f.Line, in(f.File).toCharacters(f.Line, f.Column)}
			}
		}
		run.Results = append(run.Results, result)
	}
	if suppressed > 0 {
		run.Properties = map[string]int{"suppressed": suppressed}
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

// RulesURL is the URL of the page that explains the lint rules.
const RulesURL = projectURL + "/blob/main/docs/lint/README.md"

// DoctorRulePrefix is the prefix added to a doctor check's name to form a rule.
const DoctorRulePrefix = "doctor/"

// ruleHelpURL returns the URL that explains a rule.
func ruleHelpURL(rule string, severity finding.Severity) string {
	const docs = projectURL + "/blob/main/docs/"
	switch {
	case rule == kubeletStopRule:
		return docs + "cli/validate.md"
	case strings.HasPrefix(rule, DoctorRulePrefix):
		return docs + "cli/doctor.md#checks"
	case strings.HasPrefix(rule, "mirror-"), strings.HasPrefix(rule, "registries-"):
		return docs + "mirrors.md#findings"
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

// columnConverter converts a file's columns from bytes, as used in findings, to characters, as
// used in SARIF.
type columnConverter struct {
	lines   [][]byte
	isASCII bool // the file contains only ASCII
	// The last converted position. It is kept because a long line can have thousands of findings.
	line, bytes, characters int
}

// newColumnConverter returns a column converter for a file. It returns nil if the text is empty
// or not UTF-8.
func newColumnConverter(text []byte) *columnConverter {
	if len(text) == 0 || !utf8.Valid(text) {
		return nil
	}
	plain := !bytes.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf })
	return &columnConverter{lines: bytes.Split(text, []byte("\n")), isASCII: plain}
}

// toCharacters converts a 1-based column. It returns 0 if the position is unknown.
func (c *columnConverter) toCharacters(line, column int) int {
	switch {
	case c == nil || line < 1 || line > len(c.lines) || column < 1 || column > len(c.lines[line-1])+1:
		return 0
	case c.isASCII:
		return column
	case line != c.line || column-1 < c.bytes:
		c.line, c.bytes, c.characters = line, 0, 0
	}
	c.characters += utf8.RuneCount(c.lines[line-1][c.bytes : column-1])
	c.bytes = column - 1
	return c.characters + 1
}
