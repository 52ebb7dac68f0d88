// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package plugintest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/jwt"
	"github.com/regcred/regcred/plugin"
)

// buildGood builds testdata/good with the command in docs/plugin-authors.md.
func buildGood(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "good")
	cmd := exec.Command("go", "build", "-trimpath", "-o", path, "./testdata/good")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly "+os.Getenv("GOFLAGS"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

func TestGoodPluginPasses(t *testing.T) {
	cmd := plugin.Command{Path: buildGood(t)}
	t.Run("Run", func(t *testing.T) {
		var want, got []string
		for _, c := range Checks() {
			want = append(want, c.ID)
		}
		for _, f := range Run(t.Context(), cmd, Options{}) {
			got = append(got, f.Rule)
			if f.Severity != finding.SeverityOK {
				t.Errorf("%s: %v", f.Rule, f)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the findings against Checks (-want +got):\n%s", diff)
		}
	})
	t.Run("relative path", func(t *testing.T) {
		relative := plugin.Command{Path: filepath.Base(cmd.Path), Dir: filepath.Dir(cmd.Path)}
		for _, f := range Run(t.Context(), relative, Options{Only: []string{"base-answer", "dir-root"}}) {
			if f.Severity != finding.SeverityOK {
				t.Errorf("%s: %v", f.Rule, f)
			}
		}
	})
	Test(t, cmd, Options{Only: []string{"base-answer", "cache-scope"}})
}

// TestRunOutOfTree verifies that checks of features that the out-of-tree protocol does not have
// are skipped.
func TestRunOutOfTree(t *testing.T) {
	var skipped []string
	for _, f := range Run(t.Context(), plugin.Command{Path: buildGood(t), APIVersion: plugin.OutOfTree}, Options{Concurrency: 2}) {
		switch f.Severity {
		case finding.SeverityOK:
		case finding.SeveritySkipped:
			skipped = append(skipped, f.Rule)
		default:
			t.Errorf("%s: %v", f.Rule, f)
		}
	}
	want := []string{"version-v1", "version-v1beta1", "version-v1alpha1", "version-unknown", "request-kind", "request-unknown-field",
		"cache-key-type", "cache-scope", "empty-global", "auth-key-match", "auth-key-dead", "auth-key-wide", "auth-key-port",
		"token-absent", "token-used", "token-echo", "token-old-version"}
	if diff := cmp.Diff(want, skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
}

func TestChecksAreDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Checks() {
		if !regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`).MatchString(c.ID) || seen[c.ID] {
			t.Errorf("id %q is not kebab-case, or is there twice", c.ID)
		}
		seen[c.ID] = true
		if !slices.Contains([]finding.Severity{finding.SeverityInfo, finding.SeverityWarning, finding.SeverityError}, c.Severity) {
			t.Errorf("%s: severity %q", c.ID, c.Severity)
		}
		for what, text := range map[string]string{"title": c.Title, "reason": c.Why} {
			if text == "" || strings.ContainsAny(text, "\n|") || strings.HasSuffix(text, ".") {
				t.Errorf("%s: the %s %q does not suit a table", c.ID, what, text)
			}
		}
		if u, err := url.Parse(c.Source); err != nil || u.Scheme != "https" || u.Host != "github.com" {
			t.Errorf("%s: source %q", c.ID, c.Source)
		}
	}
}

// TestNoAnswer verifies that a plugin that never returns a response gets one finding about
// that, and that checks that need a response are skipped.
func TestNoAnswer(t *testing.T) {
	var spoken []string
	skipped := 0
	for _, f := range Run(t.Context(), testCommand(t, "no-cloud"), Options{Concurrency: 2}) {
		switch f.Severity {
		case finding.SeverityOK:
		case finding.SeveritySkipped:
			skipped++
		default:
			if f.Rule != "binary-static" { // the test binary may be dynamically linked
				spoken = append(spoken, f.Rule)
			}
		}
	}
	if !slices.Equal(spoken, []string{"base-answer"}) || skipped < 20 {
		t.Errorf("findings of %q, and %d skipped; want one of base-answer, and most skipped", spoken, skipped)
	}
}

// TestNoExecutable verifies that a plugin that cannot be started gets two findings, and that
// all other checks are skipped.
func TestNoExecutable(t *testing.T) {
	cmd := plugin.Command{Path: filepath.Join(t.TempDir(), "missing")}
	var spoken []string
	for _, f := range Run(t.Context(), cmd, Options{}) {
		if f.Severity != finding.SeveritySkipped {
			spoken = append(spoken, f.Rule)
		}
	}
	if want := []string{"binary-runs", "base-answer"}; !slices.Equal(spoken, want) {
		t.Errorf("got findings of %q, want %q", spoken, want)
	}
}

func TestOptions(t *testing.T) {
	var progress []string
	opts := Options{
		Only: []string{"cache-duration", "no-such-check", "base-answer"},
		Progress: func(done, total int, id string) {
			progress = append(progress, fmt.Sprintf("%d/%d %s", done, total, id))
		},
	}
	var got []string
	for _, f := range Run(t.Context(), testCommand(t, "good"), opts) {
		got = append(got, f.Rule)
	}
	if want := []string{"base-answer", "cache-duration"}; !slices.Equal(got, want) {
		t.Errorf("got findings of %q, want %q", got, want)
	}
	if want := []string{"0/2 base-answer", "1/2 cache-duration"}; !slices.Equal(progress, want) {
		t.Errorf("got progress %q, want %q", progress, want)
	}
}

// TestTestAcceptsOptions verifies that Test uses its Options.
func TestTestAcceptsOptions(t *testing.T) {
	var told []string
	Test(t, testCommand(t, "good"), Options{Only: []string{"base-answer"}, Progress: func(_, _ int, id string) { told = append(told, id) }})
	if want := []string{"base-answer"}; !slices.Equal(told, want) {
		t.Errorf("made the checks %q, want %q", told, want)
	}
}

func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	opts := Options{
		Only: []string{"base-answer", "cache-duration"},
		Progress: func(done, _ int, _ string) {
			if done == 1 {
				cancel(errors.New("enough"))
			}
		},
	}
	findings := Run(ctx, testCommand(t, "good"), opts)
	if f := findings[0]; f.Severity != finding.SeverityOK {
		t.Errorf("%s: %v, want it to pass", f.Rule, f)
	}
	if f := findings[1]; f.Severity != finding.SeveritySkipped || f.Message != "the test was canceled: enough" {
		t.Errorf("%s: %v, want it skipped", f.Rule, f)
	}
}

// TestHangingPlugin verifies that a plugin that always hangs is run only maxHungRuns times.
func TestHangingPlugin(t *testing.T) {
	cmd := testCommand(t, "hang")
	withShortTimeout(t, &cmd)
	s := newSuite(t.Context(), cmd, Options{})
	got := map[string]finding.Severity{}
	for _, c := range allChecks() {
		for _, f := range c.runCheck(s) {
			got[f.Rule] = f.Severity
		}
	}
	if len(s.runs) != maxHungRuns {
		t.Errorf("it was run %d times, want %d", len(s.runs), maxHungRuns)
	}
	for check, want := range map[string]finding.Severity{
		"base-answer": finding.SeverityError, "time-to-answer": finding.SeverityError, "stderr-secret": finding.SeverityOK, "crash": finding.SeverityOK,
		"stdin-garbage": finding.SeveritySkipped, "sigterm": finding.SeveritySkipped, "leaves-files": finding.SeveritySkipped, "concurrent": finding.SeveritySkipped,
	} {
		if got[check] != want {
			t.Errorf("%s: got %q, want %q", check, got[check], want)
		}
	}
}

// TestInterrupted verifies that all checks are skipped when the context is done.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	for _, f := range Run(ctx, testCommand(t, "hang"), Options{Only: []string{"base-answer", "time-to-answer"}}) {
		if f.Severity != finding.SeveritySkipped {
			t.Errorf("%s: %v, want it skipped", f.Rule, f)
		}
	}
}

func TestMadeUpToken(t *testing.T) {
	a, b := makeIdentity(nil, time.Unix(1e9, 0)), makeIdentity(&ServiceAccount{}, time.Unix(1e9, 0))
	if parts := strings.Split(a.token.Reveal(), "."); len(parts) != 3 || a.token.Equal(b.token) {
		t.Errorf("the token has %d parts, or two are the same", len(parts))
	}
	if len(a.annotations) == 0 || len(b.annotations) != 0 {
		t.Error("annotations are to be made up only if no service account is given")
	}
	for want, account := range map[string]*ServiceAccount{
		"conformance.example": nil,
		"registry.example":    {Audience: "registry.example"},
	} {
		claims, err := jwt.Parse(makeIdentity(account, time.Unix(1e9, 0)).token.Reveal())
		if err != nil || !slices.Equal(claims.Audience, []string{want}) {
			t.Errorf("got audience %q, want %q (%v)", claims.Audience, want, err)
		}
	}
	given := makeIdentity(&ServiceAccount{Token: plugin.NewSecret(canary.TokenSecret)}, time.Time{})
	if given.token.Reveal() != canary.TokenSecret || strings.Contains(given.tokenDescription, "made-up") {
		t.Error("the token given is not used")
	}
}

// TestNoSecrets runs every check with plugins that print secrets. It verifies that findings
// contain none.
func TestNoSecrets(t *testing.T) {
	for _, mode := range []string{"stderr-password", "stderr-token", "password-then-fail", "key-user",
		"token-guess", "token-echo", "answer-and-fail", "unknown-field", "image-password", "line-end",
		"login-field", "login-half", "login-then-fail", "login-and-tell"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			cmd := testCommand(t, mode)
			if strings.HasPrefix(mode, "login") {
				cmd.APIVersion = plugin.OutOfTree
			}
			cmd.Args = plugin.NewSecrets("--password=" + canary.ArgSecret)
			cmd.Env = append(cmd.Env, plugin.NewSecret("PASSWORD="+canary.EnvSecret))
			opts := Options{ServiceAccount: &ServiceAccount{Token: plugin.NewSecret(canary.TokenSecret)}, Concurrency: 2}
			for _, f := range Run(t.Context(), cmd, opts) {
				canary.AssertAbsent(t, f.Rule, f.String())
			}
			canary.AssertAbsent(t, "Options", fmt.Sprintf("%v %+v %#v", opts, *opts.ServiceAccount, *opts.ServiceAccount))
		})
	}
}

// recorder is a [testing.T] that records its calls.
type recorder struct {
	*testing.T
	log []string
}

func (r *recorder) appendLog(what string, args []any) { r.log = append(r.log, what+" "+fmt.Sprint(args...)) }
func (r *recorder) Error(args ...any)            { r.appendLog("error", args) }
func (r *recorder) Log(args ...any)              { r.appendLog("log", args) }
func (r *recorder) Skip(args ...any)             { r.appendLog("skip", args) }

func TestReport(t *testing.T) {
	r := &recorder{T: t}
	reportFindings(r, slices.Concat(
		passFinding("", "good"),
		newFinding(finding.SeverityInfo, "asked", "aha", "", ""),
		newFinding(finding.SeverityWarning, "", "hm", "", ""),
		newFinding(finding.SeverityError, "asked", "no", "It fails.", "Fix it."),
		skipFinding("no response"),
	))
	want := []string{
		"log info: aha\n     did: asked",
		"log warning: hm",
		"error error: no\n     did: asked\n  effect: It fails.\n     fix: Fix it.",
		"skip no response",
	}
	if diff := cmp.Diff(want, r.log); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestRenewedPasswordCostsOneRun verifies that only one additional run is needed, and not one
// for each key, to find out that the service has renewed a password.
func TestRenewedPasswordCostsOneRun(t *testing.T) {
	cmd := testCommand(t, "renewing")
	cmd.Environ = append(os.Environ(), "HOME=/root")
	s := newSuite(t.Context(), cmd, Options{})
	if s.rotatesPasswords() {
		t.Fatal("two equal requests got different passwords")
	}
	_, state, _ := strings.Cut(cmd.Env[len(cmd.Env)-1].Reveal(), "=")
	if err := os.WriteFile(state, nil, 0o600); err != nil { // the plugin returns a new password if this file exists
		t.Fatal(err)
	}
	answer := func(password plugin.Secret) *plugin.Response {
		auth := plugin.AuthConfig{Username: "ci", Password: password}
		return &plugin.Response{Auth: map[string]plugin.AuthConfig{"a.example": auth, "b.example": auth, "c.example": auth}}
	}
	before := len(s.runs)
	if what := s.describeDifference(answer(plugin.NewSecret(canary.PasswordSecret)), answer(plugin.NewSecret(canary.PasswordSecret+"-2"))); what != "" {
		t.Errorf("got %q, want no difference", what)
	}
	if got := len(s.runs) - before; got != 1 {
		t.Errorf("the plugin was run %d times, want once", got)
	}
}

// TestSuggestedCacheKeyType verifies that the suggested cacheKeyType is a narrower scope than
// the returned one.
func TestSuggestedCacheKeyType(t *testing.T) {
	for scope, want := range map[plugin.CacheKeyType]string{
		plugin.CacheRegistry: "Return cacheKeyType Image,", plugin.CacheGlobal: "Return cacheKeyType Registry,",
	} {
		if got := narrowerScope(scope); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q", scope, got)
		}
	}
}

// TestBrokenPluginIsAlwaysReported verifies that a plugin that cannot run is reported even if
// another check is selected.
func TestBrokenPluginIsAlwaysReported(t *testing.T) {
	cmd := plugin.Command{Path: filepath.Join(t.TempDir(), "missing"), APIVersion: plugin.V1}
	findings := Run(t.Context(), cmd, Options{Only: []string{"sigterm"}})
	if len(findings) != 2 || findings[0].Rule != "binary-runs" || findings[0].Severity != finding.SeverityError || findings[1].Severity != finding.SeveritySkipped {
		t.Errorf("got %v", findings)
	}
}
