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

// render lays out what explain found, in the order in which it happens.
func (r *explainReport) render(t *terminal.Text) {
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
	if r.Subject != nil {
		r.Subject.render(t)
	}
	for _, f := range r.Findings {
		renderFinding(t, f)
	}
	if len(r.Sources) > 0 {
		t.Head("other sources")
	}
	for _, s := range r.Sources {
		t.Item(s.mark(), s.title())
		s.render(t)
		if s.unread {
			t.Detail("a kubelet goes on without it, and records the event FailedToRetrieveImagePullSecret")
		}
	}
	t.Head("providers")
	for _, p := range r.Providers {
		p.render(t)
	}
	if len(r.Credentials) > 0 {
		t.Head("credentials, in the order in which a pull tries them")
		credentialTable(t, r.Credentials)
	}
	t.Head("verdict")
	t.Item(r.Verdict.mark(), r.Verdict.Text)
}

// render says for whom the image is looked up.
func (s *subjectJSON) render(t *terminal.Text) {
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

func (p *providerReport) render(t *terminal.Text) {
	switch {
	case !p.Matched:
		t.Item(terminal.No, p.Name)
		p.renderNearest(t)
	case p.Attempt == nil:
		t.Item(terminal.OK, p.Name)
		t.Detail("%q matches", p.Pattern)
	default:
		t.Item(p.Attempt.mark(), p.Name)
		t.Detail("%q matches", p.Pattern)
		p.Attempt.render(t)
	}
	for _, f := range p.Findings {
		// A provider that does not match is of interest only if it should have.
		if p.Matched || f.Severity == lint.SeverityError {
			renderFinding(t, f)
		}
	}
}

// renderNearest shows the pattern that came nearest, and where it failed.
func (p *providerReport) renderNearest(t *terminal.Text) {
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
