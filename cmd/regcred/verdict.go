// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/lint"
)

// The outcomes of a verdict.
const (
	verdictCredentials = "credentials" // there are some
	verdictAnonymous   = "anonymous"   // there are none, and nothing failed
	verdictFailed      = "failed"      // there are none, and something failed
	verdictMatched     = "matched"     // dry run: some provider would be asked
	verdictUnmatched   = "unmatched"   // dry run: none would
	verdictInvalid     = "invalid"     // the kubelet would not start
)

// verdict says what a pull of the image would do.
type verdict struct {
	Outcome string   `json:"outcome"`
	Tries   int      `json:"tries"`            // credentials that a pull would try, one after the other
	Failed  []string `json:"failed,omitempty"` // providers and sources that failed; "the kubelet" if it would not start
	Text    string   `json:"text"`
}

func (v *verdict) exitCode() int {
	switch v.Outcome {
	case verdictCredentials, verdictMatched:
		return exitOK
	case verdictAnonymous, verdictUnmatched:
		return exitEmpty
	}
	return exitFailed
}

func (v *verdict) mark() terminal.Mark {
	switch v.exitCode() {
	case exitOK:
		if len(v.Failed) > 0 {
			return terminal.Warning
		}
		return terminal.OK
	case exitEmpty:
		return terminal.Warning
	}
	return terminal.Error
}

// judge puts what keeps the kubelet from starting before how a pull fails.
func (r *explainReport) judge() verdict {
	v := r.judgePull()
	findings := slices.Clone(r.Findings)
	for _, p := range r.Providers {
		findings = append(findings, p.Findings...)
	}
	switch why := doctor.KubeletExits(findings); {
	case why == nil:
	case v.exitCode() == exitOK: // with the executables that are there, it works
		v.Text += "; but " + why.Error()
		v.Failed = append(v.Failed, "the kubelet")
	default:
		v.Outcome, v.Text = verdictInvalid, why.Error()
	}
	return v
}

// judgePull says how a pull goes (kubelet: pkg/kubelet/kuberuntime, PullImage):
// without credentials once, anonymously; otherwise once with each in order.
func (r *explainReport) judgePull() verdict {
	v := verdict{Tries: len(r.Credentials), Failed: r.failed()}
	switch {
	case r.DryRun:
		return r.judgeDryRun()
	case v.Tries > 0:
		v.Outcome = verdictCredentials
		v.Text = "a pull tries 1 credential, and fails if it is refused; never anonymous"
		if v.Tries > 1 {
			v.Text = fmt.Sprintf("a pull tries %d credentials in order, and fails if all are refused; never anonymous", v.Tries)
		}
		if len(v.Failed) > 0 {
			v.Text += fmt.Sprintf("; but %s failed, and what would have come from there is missing", strings.Join(v.Failed, " and "))
		}
	case len(v.Failed) > 0:
		v.Outcome = verdictFailed
		v.Text = fmt.Sprintf("no credentials, because %s failed; %s", strings.Join(v.Failed, " and "), r.nevertheless())
	default:
		v.Outcome = verdictAnonymous
		v.Text = "no credentials: a pull is tried once, anonymously" + r.whyNone()
	}
	return v
}

// nevertheless says what the kubelet does after a failure.
func (r *explainReport) nevertheless() string {
	if slices.ContainsFunc(r.Findings, func(f lint.Finding) bool { return f.Rule == "predecessor-config" }) {
		return "no kubelet starts with this configuration"
	}
	for _, s := range r.Sources {
		if s.Kind == regcred.FromPullSecret && s.Outcome == outcomeFailed && !s.unread {
			return "for want of a pull secret the kubelet would not pull at all" // see lookup
		}
	}
	return "the kubelet would pull anonymously all the same, and report at most a 401"
}

func (r *explainReport) judgeDryRun() verdict {
	var would []string
	for _, p := range r.Providers {
		if p.Matched {
			would = append(would, p.Name)
		}
	}
	if len(would) == 0 {
		return verdict{Outcome: verdictUnmatched, Text: "no provider matches, so none would be asked; without another source a pull is anonymous"}
	}
	return verdict{Outcome: verdictMatched, Text: fmt.Sprintf("would ask %s: %s", terminal.Count(len(would), "provider"), strings.Join(would, ", "))}
}

// whyNone names the commonest reasons of an unexpected anonymous pull.
func (r *explainReport) whyNone() string {
	matched := false
	text := ""
	for _, p := range r.Providers {
		matched = matched || p.Matched
		switch at := p.Attempt; {
		case at == nil:
		case at.Outcome == outcomeSkipped && !p.Matched:
			text += fmt.Sprintf("; %s is not asked: %s", p.Name, at.Skipped)
		case at.Outcome == outcomeSkipped:
			text += fmt.Sprintf("; %s matches but is not asked: %s", p.Name, at.Skipped)
		case at.Outcome == outcomeEmpty && len(at.Keys) > 0:
			text += fmt.Sprintf("; %s answered, but none of its keys (%s) matches", p.Name, strings.Join(at.Keys, ", "))
		}
	}
	if !matched && text == "" {
		return "; no provider matches"
	}
	return text
}

// failed names the providers and sources that failed.
func (r *explainReport) failed() []string {
	var list []string
	for _, s := range r.Sources {
		if s.Outcome == outcomeFailed {
			list = append(list, s.title())
		}
	}
	for _, p := range r.Providers {
		if p.Attempt != nil && p.Attempt.Outcome == outcomeFailed {
			list = append(list, fmt.Sprintf("provider %q", p.Name))
		}
	}
	return list
}
