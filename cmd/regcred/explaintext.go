// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/regcred/regcred"
)

// renderReport lays out what explain found, in the order in which it happens.
func (a *app) renderReport(r *explainReport) *text {
	t := a.newText()
	if r.Registry != "" {
		t.pair("registry", r.Registry)
	} else {
		t.pair("image", r.Image)
	}
	if r.Repository != r.Image+r.Registry {
		t.pair("repository", r.Repository)
	}
	t.pair("config", fmt.Sprintf("%s (%s)", r.Config.Path, r.Config.From))
	t.pair("hash", shortHash(r.Config.Hash))
	if r.BinDir != "" {
		t.pair("bin dir", r.BinDir)
	}
	t.pair("environment", describeEnvironment(r.Environment))
	t.subject(r.Subject)
	for _, f := range r.Findings {
		t.finding(f)
	}
	if len(r.Sources) > 0 {
		t.head("other sources")
	}
	for _, s := range r.Sources {
		a.renderSource(t, s)
	}
	t.head("providers")
	for _, p := range r.Providers {
		a.renderProvider(t, p)
	}
	a.renderCredentials(t, r)
	t.head("verdict")
	t.item(r.Verdict.mark(), r.Verdict.Text)
	return t
}

// subject says for whom the image is looked up.
func (t *text) subject(s *subjectJSON) {
	if s == nil {
		return
	}
	account := "none"
	if s.ServiceAccount != nil {
		account = s.ServiceAccount.Namespace + "/" + s.ServiceAccount.Name
	}
	switch {
	case s.Pod == nil:
		t.pair("account", account+", without a pod")
	case s.Node == "":
		t.pair("pod", fmt.Sprintf("%s/%s, on no node yet; service account %s", s.Pod.Namespace, s.Pod.Name, account))
	default:
		t.pair("pod", fmt.Sprintf("%s/%s on node %s; service account %s", s.Pod.Namespace, s.Pod.Name, s.Node, account))
	}
	t.pair("pull secrets", cmp.Or(strings.Join(s.PullSecrets, ", "), "none"))
	t.pair("API server", fmt.Sprintf("%s (%s)", s.APIServer, s.From))
	for _, d := range s.Differences {
		t.pair("", d)
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

func (a *app) renderSource(t *text, s sourceReport) {
	t.item(attemptMark(&s.attemptJSON), s.title())
	for _, line := range a.lines(&s.attemptJSON) {
		t.detail("%s", line)
	}
	if s.unread {
		t.detail("a kubelet goes on without it, and records the event FailedToRetrieveImagePullSecret")
	}
}

func (a *app) renderProvider(t *text, p providerReport) {
	switch {
	case !p.Matched:
		t.item(markNo, p.Name)
		t.nearest(p)
	case p.Attempt == nil:
		t.item(markOK, p.Name)
		t.detail("%q matches", p.Pattern)
	default:
		t.item(attemptMark(p.Attempt), p.Name)
		t.detail("%q matches", p.Pattern)
		for _, line := range a.lines(p.Attempt) {
			t.detail("%s", line)
		}
	}
	for _, f := range p.Findings {
		// A provider that does not match is of interest only if it should have.
		if p.Matched || f.Severity == regcred.SeverityError {
			t.finding(f)
		}
	}
}

// nearest shows the pattern that came nearest, and where it failed.
func (t *text) nearest(p providerReport) {
	if n := len(p.Patterns); n > 1 {
		t.detail("none of %d patterns matches; nearest is %q", n, p.Pattern)
	} else {
		t.detail("%q does not match", p.Pattern)
	}
	t.detail("%s", p.Reason)
}

// finding shows a finding of the linter, unless it is only worth knowing.
func (t *text) finding(f regcred.Finding) {
	if f.Severity == regcred.SeverityInfo {
		return
	}
	t.detail("%s: %s [%s]", f.Severity, f.Message, f.Rule)
}

func attemptMark(j *attemptJSON) mark {
	switch j.Outcome {
	case outcomeAnswered:
		return markOK
	case outcomeSkipped:
		return markSkip
	case outcomeFailed:
		return markFail
	}
	return markNone
}

func (a *app) renderCredentials(t *text, r *explainReport) {
	if len(r.Credentials) == 0 {
		return
	}
	t.head("credentials, in the order in which a pull tries them")
	a.credentialTable(t, r.Credentials)
}
