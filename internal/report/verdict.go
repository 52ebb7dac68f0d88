// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/textfmt"
)

// Outcomes of a verdict, in addition to [OutcomeFailed]. That outcome means that there are no
// credentials because something failed.
const (
	VerdictWithCredentials = "credentials" // the pull has credentials
	VerdictAnonymous       = "anonymous"   // no credentials, but no failure
	VerdictMatched         = "matched"     // dry run: a provider would be called
	VerdictUnmatched       = "unmatched"   // dry run: no provider would be called
	VerdictInvalid         = "invalid"     // the kubelet would not start
)

// Verdict is the predicted outcome of a pull.
type Verdict struct {
	Outcome string   `json:"outcome"`
	Tries   int      `json:"tries"`            // number of credentials that a pull would try
	Failed  []string `json:"failed,omitempty"` // failed providers and sources; "the kubelet" if it would not start
	Text    string   `json:"text"`
	Fix     string   `json:"fix,omitempty"` // how to get a credential if the pull has none
}

// HasCredentials reports whether a pull would have credentials.
func (v *Verdict) HasCredentials() bool {
	return v.Outcome == VerdictWithCredentials || v.Outcome == VerdictMatched
}

// SetInvalid sets the verdict for an invalid configuration.
func (r *Explanation) SetInvalid(invalid error) {
	var problems []string
	for _, p := range textfmt.FlattenErrors(invalid) {
		problems = append(problems, p.Error())
	}
	r.Verdict = Verdict{
		Outcome: VerdictInvalid,
		Text:    "the kubelet would not start with this configuration: " + strings.Join(problems, "; "),
	}
}

// SetVerdict sets the verdict. Errors that stop the kubelet take precedence over a failed
// pull.
func (r *Explanation) SetVerdict() {
	v := r.predictPull()
	findings := slices.Clone(r.Findings)
	for _, p := range r.Providers {
		findings = append(findings, p.Findings...)
	}
	switch reason := KubeletStopError(findings); {
	case reason == nil:
	case v.HasCredentials(): // the lookup succeeded with the existing executables
		v.Text += "; but " + reason.Error()
		v.Failed = append(v.Failed, "the kubelet")
	default:
		v.Outcome, v.Text = VerdictInvalid, reason.Error()
	}
	r.Verdict = v
}

// predictPull predicts the outcome of a pull. Without credentials, the kubelet pulls once
// anonymously. Otherwise it tries each credential once, in order.
//
// kubelet: pkg/kubelet/kuberuntime, PullImage
func (r *Explanation) predictPull() Verdict {
	v := Verdict{Tries: len(r.Credentials), Failed: r.failedSources()}
	switch {
	case r.DryRun:
		return r.predictDryRun()
	case v.Tries > 0:
		v.Outcome, v.Text = r.predictTries(v.Tries)
		if len(v.Failed) > 0 {
			v.Text += fmt.Sprintf("; but %s failed and provided no credentials", strings.Join(v.Failed, " and "))
		}
	case len(v.Failed) > 0:
		v.Outcome = OutcomeFailed
		v.Text = fmt.Sprintf("no credentials, because %s failed; %s", strings.Join(v.Failed, " and "), r.failureConsequence())
	default:
		v.Outcome = VerdictAnonymous
		v.Text = "no credentials: a pull is tried once, anonymously" + r.anonymousReason()
		v.Fix = r.pullSecretHint()
	}
	return v
}

// predictTries predicts the outcome of a pull with credentials. The kubelet also passes
// credentials without a user name to the runtime, which ignores them.
func (r *Explanation) predictTries(tries int) (outcome, text string) {
	anonymous := 0
	for _, c := range r.Credentials {
		if c.HasNoUsername() {
			anonymous++
		}
	}
	switch {
	case anonymous == tries:
		return VerdictAnonymous, fmt.Sprintf("no credential has a user name: the runtime receives %s without one and pulls anonymously", textfmt.FormatCount(tries, "credential"))
	case anonymous > 0:
		return VerdictWithCredentials, fmt.Sprintf("a pull tries %s in order; for those without a user name (%d), the runtime pulls anonymously", textfmt.FormatCount(tries, "credential"), anonymous)
	case tries == 1:
		return VerdictWithCredentials, "a pull tries 1 credential and fails if the registry rejects it, with no fallback to an anonymous pull"
	}
	return VerdictWithCredentials, fmt.Sprintf("a pull tries %d credentials in order and fails if the registry rejects all of them, with no fallback to an anonymous pull", tries)
}

// failureConsequence describes what the kubelet does after a failure.
func (r *Explanation) failureConsequence() string {
	if slices.ContainsFunc(r.Findings, func(f finding.Finding) bool { return f.Rule == "predecessor-config" }) {
		return "no kubelet starts with this configuration"
	}
	if r.failsOnlyInRegcred() {
		return "this is a limit of regcred, and a kubelet might have a credential"
	}
	for _, s := range r.Sources {
		if s.Kind == regcred.FromPullSecret && s.Outcome == OutcomeFailed && !s.Unreadable && !s.overLimit {
			return "without the pull secret, the kubelet would not pull the image at all" // kubelet: MakeDockerKeyring returns an error
		}
	}
	return "the kubelet would still pull anonymously and, if that fails, report only a 401"
}

func (r *Explanation) predictDryRun() Verdict {
	var would []string
	for _, p := range r.Providers {
		if p.Matched {
			would = append(would, p.Name)
		}
	}
	if len(would) == 0 {
		return Verdict{Outcome: VerdictUnmatched, Text: "no provider matches, so none would be run" + r.nearestPattern() + "; without another credential source, the pull is anonymous"}
	}
	return Verdict{Outcome: VerdictMatched, Text: fmt.Sprintf("would run %s: %s", textfmt.FormatCount(len(would), "provider"), strings.Join(would, ", "))}
}

// anonymousReason explains why there are no credentials.
func (r *Explanation) anonymousReason() string {
	matched := false
	text := ""
	for _, p := range r.Providers {
		matched = matched || p.Matched
		switch at := p.Attempt; {
		case at == nil:
		case at.Outcome == OutcomeSkipped && !p.Matched:
			text += fmt.Sprintf("; %s is not run: %s", p.Name, at.Skipped)
		case at.Outcome == OutcomeSkipped:
			text += fmt.Sprintf("; %s matches but is not run: %s", p.Name, at.Skipped)
		case at.Outcome == OutcomeEmpty && len(at.Keys) > 0:
			text += fmt.Sprintf("; %s responded, but none of its keys (%s) matches", p.Name, strings.Join(at.Keys, ", "))
		}
	}
	switch {
	case r.Config.NoProviders != nil:
		text = "; there are no credential providers"
	case !matched && text == "":
		text = "; no provider matches" + r.nearestPattern()
	}
	if r.pullSecretHint() != "" {
		text += "; " + r.Subject.describe() + " names no pull secret"
	}
	for _, s := range r.Sources {
		if s.Outcome == OutcomeEmpty && s.Kind == regcred.FromPullSecret && len(s.Keys) > 0 {
			text += fmt.Sprintf("; %s has credentials, but none of them matches", s.Title())
		}
	}
	return text
}

// pullSecretHint explains how to add a pull secret to the subject. It returns "" if the
// subject has a pull secret or a provider matches.
func (r *Explanation) pullSecretHint() string {
	matches := func(p Provider) bool { return p.Matched }
	switch s := r.Subject; {
	case s == nil || len(s.PullSecrets) > 0 || slices.ContainsFunc(r.Providers, matches):
		return ""
	case s.ServiceAccount == nil:
		return "if the image is private: create a pull secret in the namespace and list it in the pod's imagePullSecrets"
	default:
		return fmt.Sprintf("if the image is private: create a pull secret in the namespace, then: kubectl patch serviceaccount --namespace %s %s --patch '{\"imagePullSecrets\": [{\"name\": \"SECRET\"}]}'; pods get the service account's pull secrets when they are created",
			textfmt.QuoteShellWord(s.ServiceAccount.Namespace), textfmt.QuoteShellWord(s.ServiceAccount.Name))
	}
}

// describe returns the pod and service account for messages.
func (s *Subject) describe() string {
	var parts []string
	if s.Pod != nil {
		parts = append(parts, fmt.Sprintf("pod %s/%s", s.Pod.Namespace, s.Pod.Name))
	}
	if s.ServiceAccount != nil {
		parts = append(parts, fmt.Sprintf("service account %s/%s", s.ServiceAccount.Namespace, s.ServiceAccount.Name))
	}
	return strings.Join(parts, " with ")
}

// nearestPattern describes the most similar pattern among all providers.
func (r *Explanation) nearestPattern() string {
	if r.Nearest == nil {
		return ""
	}
	p := r.Providers[*r.Nearest]
	text := fmt.Sprintf("; nearest is %q of %s: %s", p.Pattern, p.Name, p.Reason)
	if p.Instead != "" {
		text += fmt.Sprintf("; %q would match", p.Instead)
	}
	return text
}

// failsOnlyInRegcred reports whether a limit of regcred caused all failures.
func (r *Explanation) failsOnlyInRegcred() bool {
	for _, s := range r.Sources {
		if s.Outcome == OutcomeFailed && !s.overLimit {
			return false
		}
	}
	for _, p := range r.Providers {
		if p.Attempt != nil && p.Attempt.Outcome == OutcomeFailed && !p.Attempt.overLimit {
			return false
		}
	}
	return true
}

// failedSources returns the providers and sources that failed.
func (r *Explanation) failedSources() []string {
	var list []string
	for _, s := range r.Sources {
		if s.Outcome == OutcomeFailed {
			list = append(list, s.Title())
		}
	}
	for _, p := range r.Providers {
		if p.Attempt != nil && p.Attempt.Outcome == OutcomeFailed {
			list = append(list, fmt.Sprintf("provider %q", p.Name))
		}
	}
	return list
}
