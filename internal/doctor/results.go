// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

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
	Log         []string          // lines of the kubelet's log that show the cause
	NoProviders *node.NoProviders // set by the check "config" if the node has no configuration
}

// MarshalJSON encodes the finding with the fields check, log and without. It renames the
// field suggestion to fix, and omits provider.
func (f Finding) MarshalJSON() ([]byte, error) {
	j := jsonFinding{f.Check, f.Rule, f.Finding, f.Fix, f.Log, f.NoProviders}
	j.Finding.Provider, j.Finding.Fix = "", ""
	return json.Marshal(j)
}

// UnmarshalJSON decodes the output of MarshalJSON.
func (f *Finding) UnmarshalJSON(data []byte) error {
	var j jsonFinding
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*f = Finding{j.Check, j.Finding, j.Log, j.NoProviders}
	f.Rule, f.Fix = j.Rule, j.Fix
	return nil
}

// ImageResult is the result of the check "image".
type ImageResult struct {
	Reference   string              `json:"reference"` // includes host and tag
	Credentials []report.Credential `json:"credentials"`
	Route       *route.Route        `json:"route,omitempty"`
	Hosts       []*probe.Result     `json:"hosts"`                // hosts that were contacted, in order
	CanPull     bool                `json:"pulls"`                // whether a pull would succeed
	From        string              `json:"from,omitempty"`       // host that the pull would use
	Credential  *report.Credential  `json:"credential,omitempty"` // credential that From accepted; nil if anonymous
}

// checkResults collects the findings of one check.
type checkResults struct {
	check           string
	list            []Finding
	earlierFindings []Finding     // findings of earlier checks
	rules           report.Filter // selects lint findings
	suppressed      int           // number of lint findings that comments suppress
}

func (r *checkResults) addResult(severity finding.Severity, fix, format string, args ...any) {
	r.addFinding(finding.Finding{Severity: severity, Message: fmt.Sprintf(format, args...), Fix: fix})
}

func (r *checkResults) addFinding(f finding.Finding) {
	r.list = append(r.list, Finding{Check: r.check, Finding: f})
}

// filterFindings returns the lint findings that the rules select and cfg's comments do not
// suppress.
func (r *checkResults) filterFindings(cfg *config.Config, list []finding.Finding) []finding.Finding {
	kept, suppressed := r.rules.Apply(list, report.ConfigTextReader(cfg))
	r.suppressed += suppressed
	return kept
}

// addStep adds a finding about a step of the check. The finding has the name of the step
// instead of the name of the check.
func (r *checkResults) addStep(step string, severity finding.Severity, fix, format string, args ...any) {
	r.addResult(severity, fix, format, args...)
	r.list[len(r.list)-1].Check = step
}

// addErrors adds a finding for each of the joined errors. A [config.FieldError] also sets the
// position. If fix is empty, the hint of a [node.HintError] is used.
func (r *checkResults) addErrors(err error, fix string) {
	if e, ok := errors.AsType[*node.HintError](err); ok && fix == "" {
		fix = e.Hint
	}
	for _, e := range terminal.FlattenErrors(err) {
		f := finding.Finding{Severity: finding.SeverityError, Message: e.Error(), Fix: fix}
		if at, ok := e.(*config.FieldError); ok {
			text := config.FieldError{Msg: at.Msg, Value: at.Value}
			f.File, f.Line, f.Column, f.Path, f.Message = at.File, at.Line, at.Column, at.Path, text.Error()
		}
		r.addFinding(f)
	}
}

// jsonFinding holds the fields of a Finding in JSON.
type jsonFinding struct {
	Check string `json:"check"`
	Rule  string `json:"rule,omitempty"`
	finding.Finding
	Fix         string            `json:"fix,omitempty"`
	Log         []string          `json:"log,omitempty"`
	NoProviders *node.NoProviders `json:"without,omitempty"`
}
