// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
)

// TestMarkIgnoresOtherRegistries checks that a finding about another registry's credential does not
// affect the mark of the source.
func TestMarkIgnoresOtherRegistries(t *testing.T) {
	const severe, mild = finding.SeverityError, finding.SeverityWarning
	for _, tt := range []struct {
		outcome string
		path    string
		severe  finding.Severity
		want    terminal.Mark
	}{
		{report.OutcomeCredentials, `auths["https://r.example/v2/"].auth`, severe, terminal.MarkError},
		{report.OutcomeCredentials, `["r.example"].auth`, mild, terminal.MarkWarning},
		{report.OutcomeCredentials, `auths["other.example"].auth`, severe, terminal.MarkOK},
		{report.OutcomeCredentials, `credHelpers`, mild, terminal.MarkOK},
		{report.OutcomeCredentials, `auths[a hidden key]`, severe, terminal.MarkError},
		{report.OutcomeCredentials, `auths["r.example"]`, finding.SeverityInfo, terminal.MarkOK},
		{report.OutcomeEmpty, `auths["r.example"]`, severe, terminal.MarkNoCredential},
		{report.OutcomeFailed, `auths["r.example"]`, mild, terminal.MarkError},
	} {
		s := &report.Source{Kind: "node", Attempt: report.Attempt{Outcome: tt.outcome}, Findings: []finding.Finding{{Path: tt.path, Severity: tt.severe}}}
		if got := sourceMark(s, []report.Credential{{Match: "r.example", Source: report.Origin{Kind: "node"}}}); got != tt.want {
			t.Errorf("%s, %s %s: %s, want %s", tt.outcome, tt.severe, tt.path, got, tt.want)
		}
	}
}

// TestNodeFindings checks that get prints findings about the node's docker config if
// they can explain missing or rejected credentials.
func TestNodeFindings(t *testing.T) {
	dir := t.TempDir()
	text := `{"auths":{"r.example":{"username":"u","password":"` + canary.PasswordSecret + `\n"},"s.example":{"username":"u","password":"p"}},"credHelpers":{"e.example":"ecr-login"}}`
	must.Do(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600))
	config := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(config, []byte("apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- {name: p, apiVersion: credentialprovider.kubelet.k8s.io/v1, matchImages: [x.example], defaultCacheDuration: 0s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "p"), []byte("#!/bin/sh\n"), 0o700))
	for image, want := range map[string][]string{
		"r.example/app": {"docker-control-character"},
		"s.example/app": {},
		"e.example/app": {"docker-helper-ignored"},
	} {
		var stdout, stderrText bytes.Buffer
		run(t.Context(), []string{"get", "--root-dir", dir, "--config", config, "--bin-dir", dir, image}, strings.NewReader(""), &stdout, &stderrText, nil)
		stderr := stderrText.String()
		canary.AssertAbsent(t, image, stdout.String()+stderr)
		for _, rule := range []string{"docker-control-character", "docker-helper-ignored"} {
			if n := strings.Count(stderr, "["+rule+"]"); n != strings.Count(strings.Join(want, " "), rule) {
				t.Errorf("%s: %s %d times: %s", image, rule, n, stderr)
			}
		}
	}
}
