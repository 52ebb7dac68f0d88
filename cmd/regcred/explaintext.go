// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/lint"
)

// renderReport lays out what explain found, in the order in which it happens.
func (a *app) renderReport(r *explainReport) *terminal.Text {
	t := a.Text()
	if r.Registry != "" {
		t.Pair("registry", r.Registry)
	} else {
		t.Pair("image", r.Image)
	}
	if r.Repository != r.Image+r.Registry {
		t.Pair("repository", r.Repository)
	}
	t.Pair("config", fmt.Sprintf("%s (%s)", r.Config.Path, r.Config.From))
	t.Pair("hash", shortHash(r.Config.Hash))
	if r.BinDir != "" {
		t.Pair("bin dir", r.BinDir)
	}
	t.Pair("environment", describeEnvironment(r.Environment))
	renderSubject(t, r.Subject)
	for _, f := range r.Findings {
		renderFinding(t, f)
	}
	if len(r.Sources) > 0 {
		t.Head("other sources")
	}
	for _, s := range r.Sources {
		a.renderSource(t, s)
	}
	t.Head("providers")
	for _, p := range r.Providers {
		a.renderProvider(t, p)
	}
	a.renderCredentials(t, r)
	t.Head("verdict")
	t.Item(r.Verdict.mark(), r.Verdict.Text)
	return t
}

// renderSubject says for whom the image is looked up.
func renderSubject(t *terminal.Text, s *subjectJSON) {
	if s == nil {
		return
	}
	account := "none"
	if s.ServiceAccount != nil {
		account = s.ServiceAccount.Namespace + "/" + s.ServiceAccount.Name
	}
	switch {
	case s.Pod == nil:
		t.Pair("account", account+", without a pod")
	case s.Node == "":
		t.Pair("pod", fmt.Sprintf("%s/%s, on no node yet; service account %s", s.Pod.Namespace, s.Pod.Name, account))
	default:
		t.Pair("pod", fmt.Sprintf("%s/%s on node %s; service account %s", s.Pod.Namespace, s.Pod.Name, s.Node, account))
	}
	t.Pair("pull secrets", cmp.Or(strings.Join(s.PullSecrets, ", "), "none"))
	t.Pair("API server", fmt.Sprintf("%s (%s)", s.APIServer, s.From))
	for _, d := range s.Differences {
		t.Pair("", d)
	}
}

// shortHash is enough of a hash to compare by eye with the kubelet's metric.
func shortHash(hash string) string {
	const digits = len("sha256:") + 12
	if len(hash) <= digits {
		return hash
	}
	return hash[:digits] + "…"
}

func (a *app) renderSource(t *terminal.Text, s sourceReport) {
	t.Item(attemptMark(&s.attemptJSON), s.title())
	for _, line := range a.lines(&s.attemptJSON) {
		t.Detail("%s", line)
	}
	if s.unread {
		t.Detail("a kubelet goes on without it, and records the event FailedToRetrieveImagePullSecret")
	}
}

func (a *app) renderProvider(t *terminal.Text, p providerReport) {
	switch {
	case !p.Matched:
		t.Item(terminal.No, p.Name)
		renderNearest(t, p)
	case p.Attempt == nil:
		t.Item(terminal.OK, p.Name)
		t.Detail("%q matches", p.Pattern)
	default:
		t.Item(attemptMark(p.Attempt), p.Name)
		t.Detail("%q matches", p.Pattern)
		for _, line := range a.lines(p.Attempt) {
			t.Detail("%s", line)
		}
	}
	for _, f := range p.Findings {
		// A provider that does not match is of interest only if it should have.
		if p.Matched || f.Severity == lint.SeverityError {
			renderFinding(t, f)
		}
	}
}

// renderNearest shows the pattern that came nearest, and where it failed.
func renderNearest(t *terminal.Text, p providerReport) {
	if n := len(p.Patterns); n > 1 {
		t.Detail("none of %d patterns matches; nearest is %q", n, p.Pattern)
	} else {
		t.Detail("%q does not match", p.Pattern)
	}
	t.Detail("%s", p.Reason)
}

// renderFinding shows a finding of the linter, unless it is only worth knowing.
func renderFinding(t *terminal.Text, f lint.Finding) {
	if f.Severity == lint.SeverityInfo {
		return
	}
	t.Detail("%s: %s [%s]", f.Severity, f.Message, f.Rule)
}

func attemptMark(j *attemptJSON) terminal.Mark {
	switch j.Outcome {
	case outcomeAnswered:
		return terminal.OK
	case outcomeSkipped:
		return terminal.Skip
	case outcomeFailed:
		return terminal.Fail
	}
	return terminal.None
}

func (a *app) renderCredentials(t *terminal.Text, r *explainReport) {
	if len(r.Credentials) == 0 {
		return
	}
	t.Head("credentials, in the order in which a pull tries them")
	a.credentialTable(t, r.Credentials)
}
