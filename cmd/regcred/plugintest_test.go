// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/cobra"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/plugintest"
)

func testResult(check string, severity finding.Severity) plugintest.Finding {
	return plugintest.Finding{Finding: finding.Finding{Rule: check, Severity: severity}}
}

func TestPluginTestReport(t *testing.T) {
	findings := []plugintest.Finding{
		testResult("a", finding.SeverityOK),
		testResult("b", finding.SeverityInfo), testResult("b", finding.SeverityWarning), testResult("b", finding.SeverityInfo),
		testResult("c", finding.SeveritySkipped),
	}
	tests := []struct {
		name     string
		findings []plugintest.Finding
		strict   bool
		passed   bool
		counts   string
	}{
		{"none", nil, true, true, ""},
		{"warning", findings, false, true, "1 warning, 1 skipped, 1 ok"},
		{"strict", findings, true, false, "1 warning, 1 skipped, 1 ok"},
		{"info is no failure", []plugintest.Finding{testResult("a", finding.SeverityInfo), testResult("b", finding.SeveritySkipped)}, true, true, "1 info, 1 skipped"},
		{"errors", []plugintest.Finding{testResult("a", finding.SeverityError), testResult("a", finding.SeverityWarning), testResult("b", finding.SeverityError)}, false, false, "2 errors"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newPluginTestReport(&testSubject{}, tt.findings, tt.strict)
			if r.Passed != tt.passed {
				t.Errorf("passed: got %v, want %v", r.Passed, tt.passed)
			}
			if got := terminal.SeverityCounts(r.Counts); got != tt.counts {
				t.Errorf("got %q, want %q", got, tt.counts)
			}
		})
	}
}

// runInDir runs regcred in this process.
func runInDir(t *testing.T, ctx context.Context, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	environ := append(os.Environ(), "GORACE="+noRaceSleep)
	code = run(ctx, args, nil, &out, &err, environ)
	return code, out.String(), err.String()
}

func TestPluginTestJSON(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "bin")
	must.Do(t, linkPlugins(bin))
	code, stdout, stderr := runInDir(t, t.Context(), "plugin", "test", "--bin-dir", bin, "slip", "-o", "json",
		"--check", "cache-duration", "--check", "cache-key-type", "--arg", "x", "--env", "A=b")
	if code != exitFailed || stderr != "" {
		t.Fatalf("exit code %d, want %d; stderr %q", code, exitFailed, stderr)
	}
	var got pluginTestReport
	decodeResult(t, "regcred plugin test", stdout, &got)
	want := pluginTestReport{
		Path:        filepath.Join(bin, "slip"),
		Environment: "caller",
		Args:        1,
		Env:         []string{"A"},
		Images:      []string{plugintest.DefaultImage},
		Checks:      2,
		Counts: map[finding.Severity]int{
			finding.SeverityOK: 1, finding.SeveritySkipped: 0, finding.SeverityInfo: 0, finding.SeverityWarning: 0, finding.SeverityError: 1,
		},
		Findings: []plugintest.Finding{
			testResult("cache-key-type", finding.SeverityOK),
			testResult("cache-duration", finding.SeverityError),
		},
	}
	texts := cmpopts.IgnoreFields(plugintest.Finding{}, "Did", "Finding.Message", "Kubelet", "Finding.Fix")
	if diff := cmp.Diff(want, got, texts, cmpopts.IgnoreFields(pluginTestReport{}, "DurationSeconds")); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestPluginTestInterrupted checks that an interrupted run prints its findings, but not
// that the plugin passed.
func TestPluginTestInterrupted(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "bin")
	must.Do(t, linkPlugins(bin))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, stdout, stderr := runInDir(t, ctx, "plugin", "test", "--bin-dir", bin, "good")
	if code != exitFailed || !strings.HasSuffix(stdout, "\nerror    0 checks; interrupted before the remaining checks\n") || stderr != "error: interrupted\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// TestArgList checks that the values of --args and --arg keep their order.
func TestArgList(t *testing.T) {
	f, cmd := &pluginTestFlags{}, &cobra.Command{}
	f.register(cmd)
	must.Do(t, cmd.Flags().Parse([]string{"--arg", "a b", "--args", " c  d ", "--arg=", "--args="}))
	if diff := cmp.Diff([]string{"a b", "c", "d", ""}, f.args); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestSubjectConfigured checks that the suite gets all settings that a kubelet passes
// to a provider.
func TestSubjectConfigured(t *testing.T) {
	dir := t.TempDir()
	bin, config := filepath.Join(dir, "bin"), filepath.Join(dir, "c.yaml")
	must.Do(t, linkPlugins(bin))
	const text = `{"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": [{"name": "good",
		"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "matchImages": ["registry.example"], "defaultCacheDuration": "1m",
		"args": ["one"], "env": [{"name": "A", "value": "1"}],
		"tokenAttributes": {"serviceAccountTokenAudience": "x", "cacheType": "Token", "requireServiceAccount": true, "optionalServiceAccountAnnotationKeys": ["example.com/role"]}}]}`
	must.Do(t, os.WriteFile(config, []byte(text), 0o644))
	a := newApp(nil, nil, os.Stderr, []string{"WHO=caller"})
	a.dir, a.root, a.timeout = dir, dir, protocol.KubeletTimeout
	a.config.value, a.binDir.value = config, bin
	f := &pluginTestFlags{
		args: []string{"two"}, env: []string{"B=2", "WHO"}, images: []string{"registry.example/app:1"},
		identityFlags: identityFlags{annotationPairs: []string{"example.com/role=ci"}}, cacheType: &enumFlag{}, apiVersion: &enumFlag{},
	}
	s := must.Get(a.newTestSubject(t.Context(), f, "good"))(t)
	want := plugin.Command{
		Path: filepath.Join(bin, "good"), Name: "good", Args: plugin.NewSecrets("one", "two"),
		Environ: []string{"WHO=caller"}, Env: plugin.NewSecrets("A=1", "B=2", "WHO=caller"),
		Dir: dir, APIVersion: plugin.V1, Timeout: protocol.KubeletTimeout,
	}
	if place := s.command.Place; place == nil || !strings.Contains(place("args", 0), ":") || place("args", 1) == place("args", 0) {
		t.Error("an argument of the configuration is not known by its place there")
	}
	s.command.Place = nil
	if diff := cmp.Diff(want, s.command); diff != "" {
		t.Errorf("command: -want +got\n%s", diff)
	}
	options := plugintest.Options{
		Images: []string{"registry.example/app"},
		ServiceAccount: &plugintest.ServiceAccount{
			Audience: "x", Annotations: map[string]string{"example.com/role": "ci"}, CacheType: "Token", Required: true,
		},
	}
	if diff := cmp.Diff(options, s.options); diff != "" {
		t.Errorf("options: -want +got\n%s", diff)
	}
}
