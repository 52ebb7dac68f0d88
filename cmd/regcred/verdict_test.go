// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"testing"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/lint"
)

func TestJudge(t *testing.T) {
	provider := func(outcome string) providerReport {
		return providerReport{
			ProviderExplanation: regcred.ProviderExplanation{Name: "p", Matched: true},
			Attempt:             &attemptJSON{Outcome: outcome},
		}
	}
	unmatched := providerReport{ProviderExplanation: regcred.ProviderExplanation{Name: "p"}}
	missing := provider(outcomeFailed)
	missing.Findings = []lint.Finding{{Rule: "path-glob", Message: "never matches"}, {Rule: "missing-binary", Message: "/bin/p does not exist"}}
	stranger := provider(outcomeEmpty)
	stranger.Attempt.Keys = []string{"a.example", "b.example/x"}
	skipped := provider(outcomeSkipped)
	skipped.Attempt.Skipped = "no service account"
	secret := sourceReport{Kind: regcred.FromPullSecret, Name: "a/b", attemptJSON: attemptJSON{Outcome: outcomeFailed}}
	unread := secret
	unread.unread = true
	one := make([]credentialJSON, 1)
	two := make([]credentialJSON, 2)
	tests := []struct {
		name    string
		report  explainReport
		outcome string
		code    int
		mark    terminal.Mark
		text    string
	}{
		{
			"one credential", explainReport{Credentials: one, Providers: []providerReport{provider(outcomeAnswered)}},
			verdictCredentials, exitOK, terminal.OK, "a pull tries 1 credential, and fails if it is refused; never anonymous",
		},
		{
			"two credentials", explainReport{Credentials: two},
			verdictCredentials, exitOK, terminal.OK, "a pull tries 2 credentials in order, and fails if all are refused; never anonymous",
		},
		{
			"credentials in spite of a failure", explainReport{Credentials: one, Providers: []providerReport{provider(outcomeFailed)}},
			verdictCredentials, exitOK, terminal.Warning, `a pull tries 1 credential, and fails if it is refused; never anonymous; but provider "p" failed, and what would have come from there is missing`,
		},
		{
			"failure", explainReport{Providers: []providerReport{provider(outcomeFailed)}},
			verdictFailed, exitFailed, terminal.Error, `no credentials, because provider "p" failed; the kubelet would pull anonymously all the same, and report at most a 401`,
		},
		{
			"failure under the predecessor's configuration",
			explainReport{Findings: []lint.Finding{{Rule: "predecessor-config"}}, Providers: []providerReport{provider(outcomeFailed)}},
			verdictFailed, exitFailed, terminal.Error, `no credentials, because provider "p" failed; no kubelet starts with this configuration`,
		},
		{
			"pull secret that does not parse", explainReport{Sources: []sourceReport{secret}},
			verdictFailed, exitFailed, terminal.Error, "no credentials, because pull secret a/b failed; for want of a pull secret the kubelet would not pull at all",
		},
		{
			"pull secret that cannot be read", explainReport{Sources: []sourceReport{unread}},
			verdictFailed, exitFailed, terminal.Error, "no credentials, because pull secret a/b failed; the kubelet would pull anonymously all the same, and report at most a 401",
		},
		{
			"missing executable", explainReport{Providers: []providerReport{missing}},
			verdictInvalid, exitFailed, terminal.Error, "the kubelet would not start: /bin/p does not exist",
		},
		{
			"missing executable, but credentials", explainReport{Credentials: one, Providers: []providerReport{missing}},
			verdictCredentials, exitOK, terminal.Warning, `a pull tries 1 credential, and fails if it is refused; never anonymous; but provider "p" failed, and what would have come from there is missing; but the kubelet would not start: /bin/p does not exist`,
		},
		{
			"no match", explainReport{Providers: []providerReport{unmatched}},
			verdictAnonymous, exitEmpty, terminal.Warning, "no credentials: a pull is tried once, anonymously; no provider matches",
		},
		{
			"skipped", explainReport{Providers: []providerReport{skipped, provider(outcomeEmpty)}},
			verdictAnonymous, exitEmpty, terminal.Warning, "no credentials: a pull is tried once, anonymously; p matches but is not asked: no service account",
		},
		{
			"empty answer", explainReport{Providers: []providerReport{provider(outcomeEmpty)}},
			verdictAnonymous, exitEmpty, terminal.Warning, "no credentials: a pull is tried once, anonymously",
		},
		{
			"keys that do not match", explainReport{Providers: []providerReport{stranger}},
			verdictAnonymous, exitEmpty, terminal.Warning, "no credentials: a pull is tried once, anonymously; p answered, but none of its keys (a.example, b.example/x) matches",
		},
		{
			"dry run", explainReport{DryRun: true, Providers: []providerReport{{ProviderExplanation: regcred.ProviderExplanation{Name: "p", Matched: true}}, unmatched}},
			verdictMatched, exitOK, terminal.OK, "would ask 1 provider: p",
		},
		{
			"dry run without a match", explainReport{DryRun: true, Providers: []providerReport{unmatched}},
			verdictUnmatched, exitEmpty, terminal.Warning, "no provider matches, so none would be asked; without another source a pull is anonymous",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := tt.report.judge()
			if v.Outcome != tt.outcome || v.exitCode() != tt.code || v.mark() != tt.mark || v.Text != tt.text {
				t.Errorf("got %s, %d, %s, %q\nwant %s, %d, %s, %q", v.Outcome, v.exitCode(), v.mark(), v.Text, tt.outcome, tt.code, tt.mark, tt.text)
			}
		})
	}
}
