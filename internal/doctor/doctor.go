// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package doctor checks what a pull on a node depends on, on this machine and
// in the cluster, and knows what mends it. Each check is data; who prints it
// is somebody else. It changes nothing and runs no plugin.
package doctor

import (
	"errors"
	"fmt"

	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/terminal"
)

// Result is what came of a check, in the words that all commands have for it.
type Result = terminal.Mark

// The results.
const (
	OK   = terminal.OK
	Skip = terminal.Skipped // it could not be tried
	Warn = terminal.Warning
	Fail = terminal.Error
)

// Check is one thing that was looked at.
type Check struct {
	Check   string `json:"check"`    // its stable name
	Result  Result `json:"severity"` // ok, skipped, warning or error
	Message string `json:"message"`  // what is so
	Fix     string `json:"fix,omitempty"`
}

// Report is what was found. The zero Report is empty.
type Report struct {
	Healthy bool    `json:"healthy"` // nothing failed
	Checks  []Check `json:"checks"`  // in the order in which a pull depends on them
}

// Add records a check.
func (r *Report) Add(check string, result Result, fix, format string, args ...any) {
	r.Checks = append(r.Checks, Check{check, result, fmt.Sprintf(format, args...), fix})
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

// Count counts the checks by result.
func (r *Report) Count() map[Result]int {
	counts := map[Result]int{}
	for _, c := range r.Checks {
		counts[c.Result]++
	}
	return counts
}
