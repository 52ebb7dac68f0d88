// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package report

import (
	"testing"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/finding"
)

func TestJudge(t *testing.T) {
	provider := func(outcome string) Provider {
		return Provider{
			ProviderExplanation: regcred.ProviderExplanation{Name: "p", Matched: true},
			Attempt:             &Attempt{Outcome: outcome},
		}
	}
	unmatched := Provider{ProviderExplanation: regcred.ProviderExplanation{Name: "p"}}
	near := Provider{ProviderExplanation: regcred.ProviderExplanation{
		Name: "acr", Pattern: "*.azurecr.io", Reason: `last label: "cn" does not match "io"`, Instead: "*.azurecr.cn",
	}}
	missing := provider(OutcomeFailed)
	missing.Findings = []finding.Finding{{Rule: "unmatchable-pattern", Message: "never matches"}, {Rule: "missing-binary", Message: "/bin/p does not exist"}}
	stranger := provider(OutcomeEmpty)
	stranger.Attempt.Keys = []string{"a.example", "b.example/x"}
	skipped := provider(OutcomeSkipped)
	skipped.Attempt.Skipped = "no service account"
	secret := Source{Kind: regcred.FromPullSecret, Name: "a/b", Attempt: Attempt{Outcome: OutcomeFailed}}
	unread := secret
	unread.Unreadable = true
	one := []Credential{{Username: "u"}}
	two := []Credential{{Username: "u"}, {Username: "v"}}
	none := []Credential{{Missing: "user name and password"}}
	tests := []struct {
		name    string
		report  Explanation
		outcome string
		text    string
	}{
		{
			"one credential", Explanation{Credentials: one, Providers: []Provider{provider(OutcomeCredentials)}},
			VerdictWithCredentials, "a pull tries 1 credential and fails if the registry rejects it, with no fallback to an anonymous pull",
		},
		{
			"a credential without a user name", Explanation{Credentials: none},
			VerdictAnonymous, "no credential has a user name: the runtime receives 1 credential without one and pulls anonymously",
		},
		{
			"one with and one without", Explanation{Credentials: append(none, one...)},
			VerdictWithCredentials, "a pull tries 2 credentials in order; for those without a user name (1), the runtime pulls anonymously",
		},
		{
			"two credentials", Explanation{Credentials: two},
			VerdictWithCredentials, "a pull tries 2 credentials in order and fails if the registry rejects all of them, with no fallback to an anonymous pull",
		},
		{
			"credentials in spite of a failure", Explanation{Credentials: one, Providers: []Provider{provider(OutcomeFailed)}},
			VerdictWithCredentials, `a pull tries 1 credential and fails if the registry rejects it, with no fallback to an anonymous pull; but provider "p" failed and provided no credentials`,
		},
		{
			"failure", Explanation{Providers: []Provider{provider(OutcomeFailed)}},
			OutcomeFailed, `no credentials, because provider "p" failed; the kubelet would still pull anonymously and, if that fails, report only a 401`,
		},
		{
			"failure under the predecessor's configuration",
			Explanation{Findings: []finding.Finding{{Rule: "predecessor-config"}}, Providers: []Provider{provider(OutcomeFailed)}},
			OutcomeFailed, `no credentials, because provider "p" failed; no kubelet starts with this configuration`,
		},
		{
			"pull secret that does not parse", Explanation{Sources: []Source{secret}},
			OutcomeFailed, "no credentials, because pull secret a/b failed; without the pull secret, the kubelet would not pull the image at all",
		},
		{
			"pull secret that cannot be read", Explanation{Sources: []Source{unread}},
			OutcomeFailed, "no credentials, because pull secret a/b failed; the kubelet would still pull anonymously and, if that fails, report only a 401",
		},
		{
			"missing executable", Explanation{Providers: []Provider{missing}},
			VerdictInvalid, "the kubelet would not start: /bin/p does not exist",
		},
		{
			"missing executable, but credentials", Explanation{Credentials: one, Providers: []Provider{missing}},
			VerdictWithCredentials, `a pull tries 1 credential and fails if the registry rejects it, with no fallback to an anonymous pull; but provider "p" failed and provided no credentials; but the kubelet would not start: /bin/p does not exist`,
		},
		{
			"no match", Explanation{Providers: []Provider{unmatched}},
			VerdictAnonymous, "no credentials: a pull is tried once, anonymously; no provider matches",
		},
		{
			"no match, but nearly", Explanation{Nearest: new(1), Providers: []Provider{unmatched, near}},
			VerdictAnonymous, `no credentials: a pull is tried once, anonymously; no provider matches; nearest is "*.azurecr.io" of acr: last label: "cn" does not match "io"; "*.azurecr.cn" would match`,
		},
		{
			"no pull secret", Explanation{Providers: []Provider{unmatched}, Subject: &Subject{Pod: &Object{Namespace: "team", Name: "app-1"}, ServiceAccount: &Object{Namespace: "team", Name: "locked-down"}}},
			VerdictAnonymous, "no credentials: a pull is tried once, anonymously; no provider matches; pod team/app-1 with service account team/locked-down names no pull secret",
		},
		{
			"no pull secret, but a provider", Explanation{Providers: []Provider{provider(OutcomeEmpty)}, Subject: &Subject{ServiceAccount: &Object{Namespace: "team", Name: "app"}}},
			VerdictAnonymous, "no credentials: a pull is tried once, anonymously",
		},
		{
			"skipped", Explanation{Providers: []Provider{skipped, provider(OutcomeEmpty)}},
			VerdictAnonymous, "no credentials: a pull is tried once, anonymously; p matches but is not run: no service account",
		},
		{
			"empty answer", Explanation{Providers: []Provider{provider(OutcomeEmpty)}},
			VerdictAnonymous, "no credentials: a pull is tried once, anonymously",
		},
		{
			"keys that do not match", Explanation{Providers: []Provider{stranger}},
			VerdictAnonymous, "no credentials: a pull is tried once, anonymously; p responded, but none of its keys (a.example, b.example/x) matches",
		},
		{
			"dry run", Explanation{DryRun: true, Providers: []Provider{{ProviderExplanation: regcred.ProviderExplanation{Name: "p", Matched: true}}, unmatched}},
			VerdictMatched, "would run 1 provider: p",
		},
		{
			"dry run without a match", Explanation{DryRun: true, Providers: []Provider{unmatched}},
			VerdictUnmatched, "no provider matches, so none would be run; without another credential source, the pull is anonymous",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.report.SetVerdict()
			if v := tt.report.Verdict; v.Outcome != tt.outcome || v.Text != tt.text {
				t.Errorf("got %s, %q\nwant %s, %q", v.Outcome, v.Text, tt.outcome, tt.text)
			}
		})
	}
}
