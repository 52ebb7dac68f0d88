// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/route"
	"github.com/regcred/regcred/internal/terminal"
)

// newSubjectReport returns s as printed by -o json.
func (s *kubeSubject) newSubjectReport() *report.Subject {
	j := &report.Subject{
		Node:        s.pod.Node,
		PullSecrets: append([]string{}, s.pod.PullSecrets...),
		APIServer:   s.URL(),
		From:        s.configSource,
		Differences: s.podDifferences(),
	}
	if s.isPod() {
		j.Pod = &report.Object{Namespace: s.pod.Namespace, Name: s.pod.Name, UID: s.pod.UID}
	}
	if s.pod.ServiceAccount != "" {
		j.ServiceAccount = &report.Object{Namespace: s.pod.Namespace, Name: s.pod.ServiceAccount}
	}
	return j
}

// addSkippedSecrets adds the pull secrets that the kubelet ignores. The lookup result has no
// attempt for them.
func addSkippedSecrets(r *report.Explanation, secrets []regcred.PullSecret) {
	for _, s := range secrets {
		if why := doctor.SecretIgnoredReason(&s); why != "" {
			skipped := report.Attempt{Outcome: report.OutcomeSkipped, Skipped: "it is a Secret " + why}
			r.Sources = append(r.Sources, report.Source{Kind: regcred.FromPullSecret, Name: secretDisplayName(&s), Attempt: skipped})
		}
	}
}

func newSourceReport(at regcred.Attempt, j *report.Attempt) report.Source {
	s := report.Source{Kind: at.Kind, Name: at.Provider, Attempt: *j}
	if _, s.Unreadable = errors.AsType[*unreadableSecret](at.Err); s.Unreadable {
		s.Kind, s.Name = regcred.FromPullSecret, strings.TrimPrefix(s.Name, unreadableSecretPrefix)
		s.DurationSeconds = 0 // unknown, because pull secrets are read before the lookup
	}
	return s
}

// renderExplanation prints the report in the order in which the steps happen.
func renderExplanation(t *terminal.Text, r *report.Explanation) {
	if r.Registry != "" {
		t.Pair("registry", r.Registry)
	} else {
		t.Pair("image", r.Image)
	}
	if r.Repository != r.Image+r.Registry {
		t.Pair("repository", r.Repository)
	}
	if r.Config.NoProviders != nil {
		t.Pair("config", "none: without credential providers")
	} else {
		t.Pair("config", fmt.Sprintf("%s (%s)", r.Config.Path, r.Config.From))
		t.Pair("hash", shortHash(r.Config.Hash))
	}
	if r.BinDir != "" {
		t.Pair("bin dir", r.BinDir)
	}
	t.Pair("environment", environmentText(r.Environment))
	if r.Subject != nil {
		renderSubject(t, r.Subject)
	}
	for _, f := range r.Findings {
		renderFinding(t, f)
	}
	if len(r.Sources) > 0 {
		t.Heading("other sources")
	}
	for _, s := range r.Sources {
		t.Item(sourceMark(&s, r.Credentials), s.Title())
		attempt, fix := s.Attempt, s.Fix
		attempt.Fix = "" // printed below the reason
		renderAttempt(t, &attempt)
		if s.WithoutUsername > 0 {
			t.Detail("%s without a user name, so the runtime pulls anonymously", terminal.FormatCount(s.WithoutUsername, "credential"))
		}
		if s.Reason != "" {
			t.Detail("%s", s.Reason)
		}
		if fix != "" {
			t.Detail("fix: %s", fix)
		}
		for _, f := range s.Findings {
			if f.Severity == finding.SeverityInfo && !strings.Contains(f.Path, "auths[") {
				continue // not about a credential
			}
			t.Detail("%s: %s", f.Severity, f.String())
			if fix := report.FindingFix(f); fix != "" {
				t.Detail("fix: %s", fix)
			}
		}
		if s.Unreadable {
			t.Detail("the kubelet continues without this secret and records the event FailedToRetrieveImagePullSecret")
		}
	}
	if r.Config.NoProviders == nil {
		t.Heading("providers")
	}
	for _, p := range r.Providers {
		renderProvider(t, &p)
	}
	if len(r.Credentials) > 0 {
		t.Heading("credentials, in the order that a pull tries them")
		credentialTable(t, r.Credentials)
	}
	if r.Route != nil {
		renderRoute(t, r.Route, len(r.Credentials) > 0)
	}
	t.Heading("verdict")
	t.Item(verdictMark(&r.Verdict), r.Verdict.Text)
	if r.Verdict.Fix != "" {
		t.Detail("fix: %s", r.Verdict.Fix)
	}
}

// sourceMark returns the mark to print for a source. It is the mark of the source's attempt, or a
// worse mark if a finding concerns the source's credentials for the image.
func sourceMark(s *report.Source, credentials []report.Credential) terminal.Mark {
	mark := attemptMark(&s.Attempt)
	if s.Outcome != report.OutcomeCredentials {
		return mark
	}
	var matched []string
	for _, c := range credentials {
		if c.Source.Kind == s.Kind {
			matched = append(matched, c.Match)
		}
	}
	if s.WithoutUsername > 0 {
		mark = terminal.MarkWarning
	}
	for _, f := range s.Findings {
		switch {
		case f.Severity == finding.SeverityInfo || !isRelevantToImage(f, matched):
		case f.Severity == finding.SeverityError:
			return terminal.MarkError
		default:
			mark = terminal.MarkWarning
		}
	}
	return mark
}

// renderRoute prints the hosts that the runtime contacts, and the credentials for each.
func renderRoute(t *terminal.Text, way *route.Route, hasCredentials bool) {
	t.Heading("hosts that the runtime contacts")
	mark := terminal.MarkOK
	if way.FailureReason != "" {
		mark = terminal.MarkError
	}
	t.Item(mark, way.Describe(hasCredentials))
	for _, h := range way.Hops {
		if h.File != "" {
			t.Detail("%s: %s:%d", h.Base.Host, h.File, max(h.Line, 1))
		}
	}
	for _, f := range way.Findings {
		t.Item(terminal.Mark(f.Severity), fmt.Sprintf("%s:%d: %s [%s]", f.File, max(f.Line, 1), f.Message, f.Rule))
		if f.Fix != "" {
			t.Detail("fix: %s", f.Fix)
		}
	}
}

// renderSubject prints the pod or service account of the lookup.
func renderSubject(t *terminal.Text, s *report.Subject) {
	account := "none"
	if s.ServiceAccount != nil {
		account = s.ServiceAccount.Namespace + "/" + s.ServiceAccount.Name
	}
	switch {
	case s.Pod == nil:
		t.Pair("account", account+", without a pod")
	case s.Node == "":
		t.Pair("pod", fmt.Sprintf("%s/%s, not scheduled yet; service account %s", s.Pod.Namespace, s.Pod.Name, account))
	default:
		t.Pair("pod", fmt.Sprintf("%s/%s on node %s; service account %s", s.Pod.Namespace, s.Pod.Name, s.Node, account))
	}
	t.Pair("pull secrets", cmp.Or(strings.Join(s.PullSecrets, ", "), "none"))
	t.Pair("API server", fmt.Sprintf("%s (%s)", s.APIServer, s.From))
	for _, d := range s.Differences {
		t.Pair("", d)
	}
}

// shortHash shortens a hash. The remaining digits are enough to compare the hash with the kubelet's
// metric.
func shortHash(hash string) string {
	const digits = len("sha256:") + 12
	if len(hash) <= digits {
		return hash
	}
	return hash[:digits] + "…"
}

func renderProvider(t *terminal.Text, p *report.Provider) {
	switch {
	case !p.Matched:
		t.Item(terminal.MarkNoMatch, p.Name)
		renderClosestPattern(t, p)
	case p.Attempt == nil:
		t.Item(terminal.MarkOK, p.Name)
		t.Detail("%q matches", p.Pattern)
	default:
		t.Item(attemptMark(p.Attempt), p.Name)
		t.Detail("%q matches", p.Pattern)
		renderAttempt(t, p.Attempt)
	}
	for _, f := range p.Findings {
		// For a provider that does not match, print only errors. An error may be the reason.
		if p.Matched || f.Severity == finding.SeverityError {
			renderFinding(t, f)
		}
	}
}

// renderClosestPattern prints the pattern that comes closest to matching, and where it
// fails.
func renderClosestPattern(t *terminal.Text, p *report.Provider) {
	if n := len(p.Patterns); n > 1 {
		t.Detail("none of the %d patterns match; the closest is %q", n, p.Pattern)
	} else {
		t.Detail("%q does not match", p.Pattern)
	}
	t.Detail("%s", p.Reason)
	if p.Instead != "" {
		t.Detail("fix: use %s", p.Instead)
	}
}

// renderFinding prints a lint finding, unless its severity is info.
func renderFinding(t *terminal.Text, f finding.Finding) {
	if f.Severity == finding.SeverityInfo {
		return
	}
	t.Detail("%s: %s [%s]", f.Severity, f.Message, f.Rule)
}

// addSourceFindings adds the lint findings to each source. If no key of a source matches the image,
// it also adds a hint about the nearest key.
func (s *lookupSession) addSourceFindings(ctx context.Context, r *report.Explanation, now time.Time) {
	byTitle := map[string]*regcred.PullSecret{}
	for i := range s.req.PullSecrets {
		byTitle[secretDisplayName(&s.req.PullSecrets[i])] = &s.req.PullSecrets[i]
	}
	for i := range r.Sources {
		source := &r.Sources[i]
		if source.Outcome == report.OutcomeEmpty {
			source.Reason = report.NearestKeyHint(source.Keys, r.Repository)
		}
		if source.Outcome == report.OutcomeEmpty && source.Kind == regcred.FromPullSecret && len(r.Credentials) == 0 {
			source.Fix = cmp.Or(source.Fix, doctor.MissingCredentialFix(r.Repository))
		}
		switch secret := byTitle[source.Name]; {
		case source.Kind == regcred.FromPullSecret && secret != nil:
			source.Findings = doctor.SecretFindings(secret, now)
		case source.Kind == regcred.FromNode && s.nodeConfig != nil && source.Name == s.nodeConfig.Name():
			source.Findings = s.nodeFindings(ctx, now)
		}
	}
}
