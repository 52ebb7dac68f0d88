// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/lint"
)

// explainReport is the result of "regcred explain -o json"; the text is made
// from it too.
type explainReport struct {
	Image       string           `json:"image,omitempty"`
	Registry    string           `json:"registry,omitempty"`
	Repository  string           `json:"repository"` // as providers see it; for a registry its host
	Config      configJSON       `json:"config"`
	BinDir      string           `json:"binDir,omitempty"`
	Environment string           `json:"environment"`       // "caller" or "kubelet pid N"
	Subject     *subjectJSON     `json:"subject,omitempty"` // for whom, if --pod or --service-account says so
	DryRun      bool             `json:"dryRun"`
	Sources     []sourceReport   `json:"sources"` // pull secrets and the node's docker config files
	Providers   []providerReport `json:"providers"`
	Credentials []credentialJSON `json:"credentials"`
	Findings    []lint.Finding   `json:"findings"` // those that concern no provider in particular
	Verdict     verdict          `json:"verdict"`
}

type configJSON struct {
	Path string `json:"path"`
	Hash string `json:"hash,omitempty"`
	From string `json:"from"` // where the paths were taken from
}

// subjectJSON is the pod or service account for which an image is looked up.
type subjectJSON struct {
	Pod            *objectJSON `json:"pod,omitempty"`
	Node           string      `json:"node,omitempty"`           // on which the pod is
	ServiceAccount *objectJSON `json:"serviceAccount,omitempty"` // missing for a pod without one
	PullSecrets    []string    `json:"pullSecrets"`              // names, also of those that cannot be read
	APIServer      string      `json:"apiServer"`
	From           string      `json:"from"`                  // where address and identity are from
	Differences    []string    `json:"differences,omitempty"` // from what a kubelet does
}

type sourceReport struct {
	Kind regcred.OriginKind `json:"kind"`
	Name string             `json:"name"`
	attemptJSON

	unread bool // a pull secret that is not to be had, in contrast to one that does not parse
}

type providerReport struct {
	regcred.ProviderExplanation
	Findings []lint.Finding `json:"findings"`
	Attempt  *attemptJSON   `json:"attempt,omitempty"` // if it was asked, or skipped
}

// newExplainReport has none but empty lists: in JSON they read [].
func newExplainReport(o *node.Origin, tgt target) *explainReport {
	return &explainReport{
		Image:       tgt.image,
		Registry:    tgt.registry,
		Config:      configJSON{Path: o.Config, From: o.From},
		BinDir:      o.BinDir,
		Environment: o.Environment(),
		Sources:     []sourceReport{},
		Providers:   []providerReport{},
		Credentials: []credentialJSON{},
		Findings:    []lint.Finding{},
	}
}

// report is s in -o json.
func (s *kubeSubject) report() *subjectJSON {
	j := &subjectJSON{
		Node:        s.pod.Node,
		PullSecrets: append([]string{}, s.pod.PullSecrets...),
		APIServer:   s.URL(),
		From:        s.from,
		Differences: s.differences(),
	}
	if s.isPod() {
		j.Pod = &objectJSON{s.pod.Namespace, s.pod.Name, s.pod.UID}
	}
	if s.pod.ServiceAccount != "" {
		j.ServiceAccount = &objectJSON{Namespace: s.pod.Namespace, Name: s.pod.ServiceAccount}
	}
	return j
}

// addFindings gives each finding to the provider that it is about.
func (r *explainReport) addFindings(findings []lint.Finding) {
	for _, f := range findings {
		i := slices.IndexFunc(r.Providers, func(p providerReport) bool { return f.Provider != "" && p.Name == f.Provider })
		if i >= 0 {
			r.Providers[i].Findings = append(r.Providers[i].Findings, f)
		} else {
			r.Findings = append(r.Findings, f)
		}
	}
}

// addPassedOver tells of pull secrets that hold none, which is no attempt.
func (r *explainReport) addPassedOver(secrets []regcred.PullSecret) {
	for _, s := range secrets {
		if why := doctor.PassedOver(&s); why != "" {
			skipped := attemptJSON{Outcome: outcomeSkipped, Skipped: "it is a Secret " + why}
			r.Sources = append(r.Sources, sourceReport{Kind: regcred.FromPullSecret, Name: s.Namespace + "/" + s.Name, attemptJSON: skipped})
		}
	}
}

func newSourceReport(at regcred.Attempt, j *attemptJSON) sourceReport {
	s := sourceReport{Kind: at.Kind, Name: at.Provider, attemptJSON: *j}
	if _, s.unread = errors.AsType[*unreadSecret](at.Err); s.unread {
		s.Kind, s.Name = regcred.FromPullSecret, strings.TrimPrefix(s.Name, unreadPrefix)
		s.DurationSeconds = 0 // it was read before the lookup
	}
	return s
}

// title names a source among others.
func (s *sourceReport) title() string {
	if s.Kind == regcred.FromPullSecret {
		return "pull secret " + s.Name
	}
	return s.Name
}

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
