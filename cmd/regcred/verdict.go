// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred"
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
	Failed  []string `json:"failed,omitempty"` // providers and sources that failed
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

func (v *verdict) mark() mark {
	switch v.exitCode() {
	case exitOK:
		if len(v.Failed) > 0 {
			return markWarn
		}
		return markOK
	case exitEmpty:
		return markWarn
	}
	return markFail
}

// judge adds to the verdict what keeps the kubelet from starting at all.
func (r *explainReport) judge() verdict {
	v := r.judgePull()
	stopped := slices.ContainsFunc(r.Findings, stopsKubelet)
	for _, p := range r.Providers {
		stopped = stopped || slices.ContainsFunc(p.Findings, stopsKubelet)
	}
	if stopped {
		v.Text += "; but the kubelet would not start, for want of an executable: run regcred validate"
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
		v.Text = fmt.Sprintf("a pull tries %s, then fails; never anonymous", inOrder(v.Tries))
		if len(v.Failed) > 0 {
			v.Text += fmt.Sprintf("; but %s failed, and %s", strings.Join(v.Failed, " and "), r.despite("what would have come from there is missing"))
		}
	case len(v.Failed) > 0:
		v.Outcome = verdictFailed
		v.Text = fmt.Sprintf("no credentials, because %s failed; %s", strings.Join(v.Failed, " and "),
			r.despite("the kubelet would pull anonymously all the same, and report at most a 401"))
	default:
		v.Outcome = verdictAnonymous
		v.Text = "no credentials: a pull is tried once, anonymously" + r.whyNone()
	}
	return v
}

// despite says what the kubelet does after a failure: usually goes on.
func (r *explainReport) despite(usually string) string {
	for _, s := range r.Sources {
		if s.Kind == regcred.SourcePullSecret && s.Outcome == outcomeFailed {
			// kubelet: MakeDockerKeyring fails as a whole.
			return "for want of a pull secret the kubelet would not pull at all"
		}
	}
	return usually
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
	return verdict{Outcome: verdictMatched, Text: fmt.Sprintf("would ask %s: %s", count(len(would), "provider"), strings.Join(would, ", "))}
}

func inOrder(n int) string {
	if n == 1 {
		return "1 credential"
	}
	return fmt.Sprintf("%d credentials in this order", n)
}

// whyNone names the commonest reason of an unexpected anonymous pull.
func (r *explainReport) whyNone() string {
	matched, skipped := 0, 0
	for _, p := range r.Providers {
		if p.Matched {
			matched++
		}
		if p.Attempt != nil && p.Attempt.Outcome == outcomeSkipped {
			skipped++
		}
	}
	switch {
	case matched == 0:
		return "; no provider matches"
	case skipped == matched:
		return "; " + count(skipped, "provider") + " matched but would not be asked"
	}
	return ""
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
