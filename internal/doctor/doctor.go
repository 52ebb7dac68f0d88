// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package doctor checks what a pull on a node depends on, on this machine and
// in the cluster, and knows what mends it. Each check is data; who prints it
// is somebody else. It changes nothing, and runs no plugin but for an [Image].
package doctor

import (
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

// Result is what came of a check, in the words that all commands have for it.
type Result = terminal.Mark

// The results.
const (
	OK   = terminal.OK
	Info = terminal.Info
	Skip = terminal.Skipped // it could not be tried
	Warn = terminal.Warning
	Fail = terminal.Error
)

// Check is one thing that was looked at.
type Check struct {
	Check   string   `json:"check"`          // its stable name
	Result  Result   `json:"severity"`       // ok, info, skipped, warning or error
	Host    string   `json:"host,omitempty"` // that was asked
	Message string   `json:"message"`        // what is so
	Fix     string   `json:"fix,omitempty"`
	Log     []string `json:"log,omitempty"` // lines of the kubelet's log that say so

	Without *node.Without `json:"without,omitempty"` // of the check of a configuration that there is not
}

// Report is what was found. The zero Report is empty.
type Report struct {
	Healthy bool    `json:"healthy"` // nothing failed
	Checks  []Check `json:"checks"`  // in the order in which a pull depends on them

	Image *ImageResult `json:"image,omitempty"` // of the image that was asked about

	Rules      report.Filter `json:"-"`                    // selects lint findings
	Suppressed int           `json:"suppressed,omitempty"` // lint findings that comments suppress
}

// Add records a check.
func (r *Report) Add(check string, result Result, fix, format string, args ...any) {
	r.Checks = append(r.Checks, Check{Check: check, Result: result, Message: fmt.Sprintf(format, args...), Fix: fix})
}

// Fail records each of joined errors, with the hint of a [node.Error] if fix is
// empty.
func (r *Report) Fail(check string, err error, fix string) {
	if e, ok := errors.AsType[*node.Error](err); ok && fix == "" {
		fix = e.Hint
	}
	for _, e := range terminal.Flatten(err) {
		r.Add(check, Fail, fix, "%v", e)
	}
}

// selected returns the lint findings that Rules selects and cfg's comments do not
// suppress.
func (r *Report) selected(cfg *config.Config, list []finding.Finding) []finding.Finding {
	kept, suppressed := r.Rules.Apply(list, report.TextOf(cfg))
	r.Suppressed += suppressed
	return kept
}

// Count counts the checks by result.
func (r *Report) Count() map[Result]int {
	counts := map[Result]int{}
	for _, c := range r.Checks {
		counts[c.Result]++
	}
	return counts
}

// ImageResult is what was found out about an image.
type ImageResult struct {
	Reference   string              `json:"reference"` // whole
	Credentials []report.Credential `json:"credentials"`
	Route       *route.Route        `json:"route,omitempty"`
	Hosts       []*probe.Result     `json:"hosts"`                // that were asked, in their order
	Pulls       bool                `json:"pulls"`                // a pull would work
	From        string              `json:"from,omitempty"`       // the host that it would be from
	Credential  *report.Credential  `json:"credential,omitempty"` // with which; missing if anonymously
}
