// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/lint/internal/rules"
	"github.com/regcred/regcred/plugin"
)

// lintProvider returns a provider for which lint has no findings.
func lintProvider(name string, patterns ...string) config.Provider {
	d := 12 * time.Hour
	return config.Provider{Name: name, MatchImages: patterns, DefaultCacheDuration: &d, APIVersion: plugin.V1}
}

func lintTokens(p config.Provider, change func(*config.TokenAttributes)) config.Provider {
	require := true
	p.TokenAttributes = &config.TokenAttributes{
		ServiceAccountTokenAudience: "registry.example",
		CacheType:                   config.CachePerServiceAccount,
		RequireServiceAccount:       &require,
	}
	if change != nil {
		change(p.TokenAttributes)
	}
	return p
}

// briefFindings formats findings as "rule path: suggestion" for comparison.
func briefFindings(fs []finding.Finding) []string {
	var lines []string
	for _, f := range fs {
		line := caseName(f) + " " + f.Path
		if f.Fix != "" {
			line += ": " + f.Fix
		}
		lines = append(lines, strings.ReplaceAll(line, "providers[0].", ""))
	}
	return lines
}

// TestDocumented compares the rules with the headings of docs/lint/README.md.
func TestDocumented(t *testing.T) {
	all := map[string]finding.Severity{}
	collectSeverities(t, all, configRules())
	collectSeverities(t, all, overlapRules(nil, nil))
	collectSeverities(t, all, providerRules())
	collectSeverities(t, all, patternRules())
	collectSeverities(t, all, binDirRules())
	collectSeverities(t, all, fileRules())
	collectSeverities(t, all, binaryRules())
	all[config.KnownFaultRule] = finding.SeverityInfo // not a rule of this package, but selected in the same way
	doc := must.Get(os.ReadFile("../docs/lint/README.md"))(t)
	text, _, found := strings.Cut(string(doc), "\n## Docker configs and pull secrets\n")
	if !found {
		t.Fatal("the section for docker configs is missing")
	}
	headings := map[string]finding.Severity{}
	for _, m := range regexp.MustCompile("(?m)^### `([a-z0-9-]+)` \\((error|warning|info)\\)$").FindAllStringSubmatch(text, -1) {
		headings[m[1]] = finding.Severity(m[2])
	}
	if diff := cmp.Diff(all, headings); diff != "" {
		t.Errorf("rules (-) and headings (+):\n%s", diff)
	}
	if names := slices.Sorted(maps.Keys(all)); !slices.Equal(Rules(), names) {
		t.Errorf("Rules() is %q, want %q", Rules(), names)
	}
}

// collectSeverities adds the severities of rules to all. It fails the test if rules with the same name have
// different severities.
func collectSeverities[T any](t *testing.T, all map[string]finding.Severity, list []rules.Rule[T]) {
	t.Helper()
	for _, r := range list {
		if other, ok := all[r.Name]; ok && other != r.Severity {
			t.Errorf("%s is %s and %s", r.Name, other, r.Severity)
		}
		all[r.Name] = r.Severity
	}
}

func loadForLint(t *testing.T, path string) *config.Config {
	t.Helper()
	c := must.Get(config.Load(path))(t)
	must.Do(t, c.Validate())
	return c
}

// findingsIn returns the findings for a file. It omits writable-config, which depends on the
// permissions of the checkout.
func findingsIn(t *testing.T, path string) []finding.Finding {
	t.Helper()
	return slices.DeleteFunc(Check(loadForLint(t, path)), func(f finding.Finding) bool { return caseName(f) == "writable-config" })
}

func TestLintRealConfigsAreClean(t *testing.T) {
	paths := must.Get(filepath.Glob("testdata/clean/*"))(t)
	if len(paths) < 8 {
		t.Fatalf("only %d files", len(paths))
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			for _, f := range findingsIn(t, path) {
				if f.Severity != finding.SeverityInfo {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

// TestLintNamesPublicMisconfigurations verifies that lint finds the mistakes in configurations from
// public issues (kubernetes-sigs/kind#4185, and #91 and #41 of jfrog/jfrog-credentials-provider).
// In each issue, the plugin works when it is run by hand, but the kubelet never runs it.
func TestLintNamesPublicMisconfigurations(t *testing.T) {
	for path, want := range map[string]string{
		"kind-4185.yaml": `path-glob matchImages[0]: harbor.example.com`,
		"jfrog-91.yaml":  `path-glob matchImages[0]: mydomain.jfrog.io`,
		"jfrog-41.yaml":  `path-glob matchImages[0]: artifactory.example.com`,
	} {
		t.Run(path, func(t *testing.T) {
			got := briefFindings(findingsIn(t, filepath.Join("testdata", path)))
			if diff := cmp.Diff([]string{want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLintPositions(t *testing.T) {
	type at struct {
		Rule, Path   string
		Line, Column int
	}
	for path, want := range map[string][]at{
		"positions.yaml": {
			{"old-config-version", "apiVersion", 2, 13},
			{"scheme", "providers[0].matchImages[1]", 8, 9},
			{"zero-cache", "providers[0].defaultCacheDuration", 9, 27},
			{"old-plugin-version", "providers[0].apiVersion", 10, 17},
			{"overlapping-providers", "providers[1].matchImages[0]", 12, 20},
			{"docker-helper-name", "providers[1].name", 15, 11},
			{"second-document", "", 16, 0},
		},
		"positions.json": {
			{"path-glob", "providers[0].matchImages[1]", 7, 40},
			{"duplicate-env", "providers[0].env[0]", 10, 15},
			{"secret-in-env", "providers[0].env[0]", 10, 15},
			{"secret-in-env", "providers[0].env[1]", 10, 61},
		},
	} {
		t.Run(path, func(t *testing.T) {
			file := filepath.Join("testdata", path)
			var got []at
			for _, f := range findingsIn(t, file) {
				if f.File != file {
					t.Errorf("file of %s is %q", caseName(f), f.File)
				}
				got = append(got, at{caseName(f), f.Path, f.Line, f.Column})
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLintDirectoryIsInFileOrder(t *testing.T) {
	dir := t.TempDir()
	const file = `{apiVersion: kubelet.config.k8s.io/v1, kind: CredentialProviderConfig, providers: [
  {name: NAME, matchImages: ["NAME.example.com/*"], defaultCacheDuration: 0s, apiVersion: credentialprovider.kubelet.k8s.io/v1}]}`
	for _, name := range []string{"b", "a", "c"} {
		text := " " + strings.ReplaceAll(file, "NAME", name) // a leading { would be parsed as JSON
		must.Do(t, os.WriteFile(filepath.Join(dir, name+".yaml"), []byte("# YAML\n"+text), 0o644))
	}
	var got []string
	for _, f := range findingsIn(t, dir) {
		got = append(got, filepath.Base(f.File)+" "+caseName(f)+" "+f.Path)
	}
	want := []string{
		"a.yaml path-glob providers[0].matchImages[0]", "a.yaml zero-cache providers[0].defaultCacheDuration",
		"b.yaml path-glob providers[0].matchImages[0]", "b.yaml zero-cache providers[0].defaultCacheDuration",
		"c.yaml path-glob providers[0].matchImages[0]", "c.yaml zero-cache providers[0].defaultCacheDuration",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLintHidesSecrets(t *testing.T) {
	p := lintProvider("echo",
		"user:"+canary.PasswordSecret+"@registry.example.com/team*",
		"https://"+canary.PasswordSecret+"@Registry.example.com?token="+canary.TokenSecret,
		"registry.example.com?"+canary.TokenSecret, "registry.example.com#"+canary.TokenSecret,
		canary.PasswordSecret+"@::1", "dup.example.com?"+canary.TokenSecret, "dup.example.com?"+canary.TokenSecret,
		"registry.example.com/x "+canary.PasswordSecret)
	p.Args = []plugin.Secret{plugin.NewSecret("--password=" + canary.ArgSecret), plugin.NewSecret("--token"), plugin.NewSecret(canary.ArgSecret), plugin.NewSecret(canary.ArgSecret + " --flag ${X}"), plugin.NewSecret("echo " + canary.ArgSecret)}
	p.Env = []config.EnvVar{{Name: "PASSWORD", Value: plugin.NewSecret(canary.EnvSecret)}, {Name: "PASSWORD", Value: plugin.NewSecret(canary.EnvSecret)}, {Name: "HTTP_PROXY", Value: plugin.NewSecret("http://u:" + canary.EnvSecret + "@proxy")},
		{Name: "A=B", Value: plugin.NewSecret(canary.EnvSecret)}, {Name: "", Value: plugin.NewSecret(canary.EnvSecret)}, {Name: "X", Value: plugin.NewSecret(canary.EnvSecret + "${Y}")}, {Name: "N\x00", Value: plugin.NewSecret(canary.EnvSecret)}}
	q := p
	q.Name = "other"
	c := &config.Config{Providers: []config.Provider{lintTokens(p, nil), q}}
	findings := Check(c)
	text := must.Get(json.Marshal(findings))(t)
	canary.AssertAbsent(t, "the findings", string(text))
	seen := map[string]bool{}
	for _, f := range findings {
		seen[caseName(f)] = true
	}
	for _, rule := range []string{"userinfo", "query", "scheme", "path-glob", "go-version", "duplicate-pattern", "whitespace", "overlapping-providers",
		"secret-in-args", "joined-args", "unexpanded-variable", "secret-in-env", "duplicate-env", "proxied-metadata", "env-name", "echoed-token"} {
		if !seen[rule] {
			t.Errorf("%s did not speak", rule)
		}
	}
}
