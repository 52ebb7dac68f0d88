// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/plugin"
)

// attemptMark returns the mark that is printed for an attempt.
func attemptMark(j *report.Attempt) terminal.Mark {
	return map[string]terminal.Mark{
		report.OutcomeCredentials: terminal.MarkOK, report.OutcomeSkipped: terminal.MarkSkipped, report.OutcomeFailed: terminal.MarkError, report.OutcomeEmpty: terminal.MarkNoCredential,
	}[j.Outcome]
}

// renderAttempt prints an attempt, its result, and how to fix a failure.
func renderAttempt(t *terminal.Text, j *report.Attempt) {
	renderIdentity(t, j.Identity)
	switch j.Outcome {
	case report.OutcomeSkipped:
		t.Detail("not run: %s", j.Skipped)
	case report.OutcomeFailed:
		after := ""
		if j.DurationSeconds > 0 {
			after = " after " + terminal.FormatMillis(j.DurationSeconds)
		}
		t.Detail("failed (%s)%s: %s", j.Stage, after, j.Error)
	default:
		renderResponse(t, j)
	}
	renderStderr(t, j)
	if j.Fix != "" {
		t.Detail("fix: %s", j.Fix)
	}
}

func renderResponse(t *terminal.Text, j *report.Attempt) {
	answer := "no credentials for this image"
	if j.Credentials > 0 {
		answer = terminal.FormatCount(j.Credentials, "credential")
	}
	switch j.Cache {
	case regcred.CacheHit:
		answer = fmt.Sprintf("response from the cache, %s old: %s", terminal.FormatDuration(time.Duration(j.AgeSeconds*float64(time.Second))), answer)
	case regcred.CacheCoalesced:
		answer = "response from a plugin run for another image: " + answer
	case regcred.CacheMiss:
		answer = "ran for " + terminal.FormatMillis(j.DurationSeconds) + ": " + answer
	}
	t.Detail("%s", answer)
	if j.Credentials == 0 && len(j.Keys) > 0 {
		t.Detail("none of the auth keys in the response match the image: %s", strings.Join(j.Keys, ", "))
	}
	if j.CacheKey != "" {
		kept := t.FormatExpiry(j.CachedUntil)
		if j.CachedUntil != nil {
			kept = "cached until " + kept
		}
		t.Detail("valid for %s%s; %s", scopeText(j.CacheKey), identitySuffix(j.Identity), kept)
	}
}

// renderStderr prints at most the last five lines of the plugin's standard error.
func renderStderr(t *terminal.Text, j *report.Attempt) {
	const most = 5
	text := strings.TrimSpace(j.Stderr)
	if text == "" {
		return
	}
	said := strings.Split(text, "\n")
	if n := len(said) - most; n > 0 {
		t.Detail("stderr (%s omitted; use -o json to see all):", terminal.FormatCount(n, "line"))
		said = said[n:]
	}
	for _, line := range said {
		t.Detail("stderr: %s", line)
	}
}

// renderIdentity prints the service account that the provider was called for.
func renderIdentity(t *terminal.Text, id *report.ServiceAccountIdentity) {
	if id == nil {
		return
	}
	if a := id.ServiceAccount; a != nil {
		who := fmt.Sprintf("service account %s/%s", a.Namespace, a.Name)
		if a.UID != "" {
			who += ", uid " + a.UID
		}
		t.Detail("%s", who)
	}
	if len(id.Annotations) > 0 {
		t.Detail("annotations sent: %s", strings.Join(id.Annotations, ", "))
	}
	if len(id.MissingOptional) > 0 {
		t.Detail("optional annotations not set: %s", strings.Join(id.MissingOptional, ", "))
	}
	for _, key := range slices.Sorted(maps.Keys(id.Similar)) {
		t.Detail("the service account has %s, which is not sent: rename it to %s, or change the key in the configuration", id.Similar[key], key)
	}
	switch id.Token {
	case regcred.TokenRequested:
		t.Detail("token requested for audience %q", id.Audience)
	case regcred.TokenGiven:
		t.Detail("token taken from a flag; the configuration requires audience %q", id.Audience)
	}
}

// identitySuffix describes which pods can use a cached response. The text is appended to the scope.
func identitySuffix(id *report.ServiceAccountIdentity) string {
	switch {
	case id == nil:
		return ""
	case id.Token == regcred.TokenGiven || id.CacheType == config.CachePerToken:
		return ", with this token"
	}
	return fmt.Sprintf(", for all pods of service account %s/%s", id.ServiceAccount.Namespace, id.ServiceAccount.Name)
}

func scopeText(t plugin.CacheKeyType) string {
	switch t {
	case plugin.CacheImage:
		return "this image"
	case plugin.CacheRegistry:
		return "the whole registry"
	case plugin.CacheGlobal:
		return "every image that the provider serves"
	}
	return string(t)
}

// credentialTable prints a table of credentials, in their order.
func credentialTable(t *terminal.Text, creds []report.Credential) {
	var rows [][]string
	for i, c := range creds {
		rows = append(rows, []string{fmt.Sprint(i + 1), cmp.Or(c.Username, "-"), c.Match, c.Source.String(), t.FormatExpiry(c.CachedUntil)})
	}
	t.Table([]string{"#", "USER", "FOR", "FROM", "CACHED UNTIL"}, rows)
	for i, c := range creds {
		if note := c.Note(); note != "" {
			t.Detail("%d: %s", i+1, note)
		}
	}
}

// credentialText describes a credential, or "anonymous" for nil.
func credentialText(c *report.Credential) string {
	if c == nil {
		return "none (anonymous)"
	}
	return fmt.Sprintf("%s, user %q", c.Source.String(), c.Username)
}

// verdictExitCode returns the exit code of explain.
func verdictExitCode(v *report.Verdict) int {
	switch {
	case v.HasCredentials():
		return exitOK
	case v.Outcome == report.VerdictAnonymous || v.Outcome == report.VerdictUnmatched:
		return exitNoMatch
	}
	return exitFailed
}

func verdictMark(v *report.Verdict) terminal.Mark {
	switch verdictExitCode(v) {
	case exitOK:
		if len(v.Failed) > 0 {
			return terminal.MarkWarning
		}
		return terminal.MarkOK
	case exitNoMatch:
		return terminal.MarkWarning
	}
	return terminal.MarkError
}
