// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package doctor checks everything that an image pull on a node depends on: files,
// the kubelet, the container runtime, the cluster and the registry. [Checks] lists
// the checks, and [Run] returns their findings. Nothing is changed, and plugins are
// run only for an [Image].
package doctor

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/probe"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/route"
	"github.com/regcred/regcred/internal/terminal"
)

// Finding is one result of a check.
type Finding struct {
	Check string // name of the check, or of a step of the check "image"
	finding.Finding
	Log     []string      // lines of the kubelet's log that show the cause
	Without *node.Without // set by "config" if the node has no configuration
}

// jsonFinding has the fields of a Finding in JSON.
type jsonFinding struct {
	Check    string           `json:"check"`
	Rule     string           `json:"rule,omitempty"`
	Severity finding.Severity `json:"severity"`
	Host     string           `json:"host,omitempty"`
	File     string           `json:"file,omitempty"`
	Line     int              `json:"line,omitempty"`
	Column   int              `json:"column,omitempty"`
	Path     string           `json:"path,omitempty"`
	Message  string           `json:"message"`
	Fix      string           `json:"fix,omitempty"`
	Log      []string         `json:"log,omitempty"`
	Without  *node.Without    `json:"without,omitempty"`
}

// MarshalJSON returns an object with the field check, and fix for a finding's suggestion.
func (f Finding) MarshalJSON() ([]byte, error) {
	return json.Marshal(jsonFinding{f.Check, f.Rule, f.Severity, f.Host, f.File, f.Line, f.Column, f.Path, f.Message, f.Fix, f.Log, f.Without})
}

// UnmarshalJSON reads what MarshalJSON returns.
func (f *Finding) UnmarshalJSON(data []byte) error {
	var j jsonFinding
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*f = Finding{j.Check, finding.Finding{
		Rule: j.Rule, Severity: j.Severity, Host: j.Host, File: j.File, Line: j.Line, Column: j.Column, Path: j.Path, Message: j.Message, Fix: j.Fix,
	}, j.Log, j.Without}
	return nil
}

// Report is the result of [Run].
type Report struct {
	Healthy    bool         `json:"healthy"` // no finding is an error
	Findings   []Finding    `json:"checks"`  // in the order in which a pull depends on the checks
	Image      *ImageResult `json:"image,omitempty"`
	Suppressed int          `json:"suppressed,omitempty"` // lint findings that comments suppress
}

// Count returns the number of findings for each severity.
func (r *Report) Count() map[finding.Severity]int {
	counts := map[finding.Severity]int{}
	for _, f := range r.Findings {
		counts[f.Severity]++
	}
	return counts
}

// ImageResult is the result of the check "image".
type ImageResult struct {
	Reference   string              `json:"reference"` // with host and tag
	Credentials []report.Credential `json:"credentials"`
	Route       *route.Route        `json:"route,omitempty"`
	Hosts       []*probe.Result     `json:"hosts"`                // hosts that were contacted, in order
	Pulls       bool                `json:"pulls"`                // whether a pull would succeed
	From        string              `json:"from,omitempty"`       // host that the pull would use
	Credential  *report.Credential  `json:"credential,omitempty"` // accepted by From; nil if anonymous
}

// results collects the findings of one check.
type results struct {
	check      string
	list       []Finding
	earlier    []Finding     // of the checks before
	rules      report.Filter // selects lint findings
	suppressed int           // lint findings that comments suppress
}

func (r *results) add(severity finding.Severity, fix, format string, args ...any) {
	r.report(finding.Finding{Severity: severity, Message: fmt.Sprintf(format, args...), Fix: fix})
}

func (r *results) report(f finding.Finding) {
	r.list = append(r.list, Finding{Check: r.check, Finding: f})
}

// selected returns the lint findings that the rules select and cfg's comments do not
// suppress.
func (r *results) selected(cfg *config.Config, list []finding.Finding) []finding.Finding {
	kept, suppressed := r.rules.Apply(list, report.TextOf(cfg))
	r.suppressed += suppressed
	return kept
}

// addStep adds a finding of a step of the check.
func (r *results) addStep(step string, severity finding.Severity, fix, format string, args ...any) {
	r.add(severity, fix, format, args...)
	r.list[len(r.list)-1].Check = step
}

// fail adds an error for each of the joined errors, with the position of a
// [config.FieldError]. An empty fix is replaced by the hint of a [node.Error].
func (r *results) fail(err error, fix string) {
	if e, ok := errors.AsType[*node.Error](err); ok && fix == "" {
		fix = e.Hint
	}
	for _, e := range terminal.Flatten(err) {
		f := finding.Finding{Severity: finding.SeverityError, Message: e.Error(), Fix: fix}
		if at, ok := e.(*config.FieldError); ok {
			text := config.FieldError{Msg: at.Msg, Value: at.Value}
			f.File, f.Line, f.Column, f.Path, f.Message = at.File, at.Line, at.Column, at.Path, text.Error()
		}
		r.report(f)
	}
}
