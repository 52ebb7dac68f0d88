// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/must"
)

func TestSuppressions(t *testing.T) {
	const a, b = "sibling-path", "open-domain"
	for name, tt := range map[string]struct {
		text string
		want map[int][]string
	}{
		"none":             {"a: b # a comment\n", nil},
		"end of line":      {"a: b # regcred:disable=sibling-path a reason\nc: d\n", map[int][]string{1: {a}}},
		"without a reason": {"a: b #regcred:disable=sibling-path", map[int][]string{1: {a}}},
		"list":             {"a: b # regcred:disable=sibling-path,open-domain why\n", map[int][]string{1: {a, b}}},
		"line above":       {"x: y\n  # regcred:disable=sibling-path\na: b\nc: d\n", map[int][]string{3: {a}}},
		"two lines above":  {"# regcred:disable=sibling-path\n# regcred:disable=open-domain\n# text\na: b\n", map[int][]string{4: {a, b}}},
		"last line":        {"a: b\n# regcred:disable=sibling-path", map[int][]string{3: {a}}},
		"both":             {"# regcred:disable=sibling-path\na: b # regcred:disable=open-domain\n", map[int][]string{2: {a, b}}},
		"CRLF":             {"# regcred:disable=sibling-path\r\na: b # regcred:disable=open-domain\r\n", map[int][]string{2: {a, b}}},
		"double quotes":    {"a: \"b # regcred:disable=sibling-path \"\n", nil},
		"single quotes":    {"a: 'b # regcred:disable=sibling-path '\n", nil},
		"quotes, comment":  {"a: 'b # regcred:disable=sibling-path ' # regcred:disable=open-domain\n", map[int][]string{1: {b}}},
		"quoted lines":     {"a: \"b\n  # regcred:disable=sibling-path\n  c\"\n", nil},
		"literal block":    {"a: |\n  b # regcred:disable=sibling-path\n", nil},
		"folded block":     {"a: >-\n  # regcred:disable=sibling-path\n  b\n", nil},
		"block header":     {"a: | # regcred:disable=sibling-path\n  b\n", map[int][]string{1: {a}}},
		"apostrophe":       {"a: it's # regcred:disable=sibling-path\n", map[int][]string{1: {a}}},
		"plain scalar":     {"a: b# regcred:disable=sibling-path\n", nil},
		"key":              {"\"# regcred:disable=sibling-path \": b\n", nil},
		"flow style":       {"a: [b, # regcred:disable=sibling-path\n  c, {d: e}, # regcred:disable=open-domain\n  f]\n", map[int][]string{1: {a}, 2: {b}}},
		"JSON":             {"{\"a\": \"# regcred:disable=sibling-path \"}", nil},
		"JSON, tabs":       {"{\n\t\"a\": \"# regcred:disable=sibling-path \"}", nil},
		"second document":  {"a: b # regcred:disable=sibling-path\n--- # regcred:disable=second-document\n# regcred:disable=open-domain\nc: d\n", map[int][]string{1: {a}, 2: {"second-document"}, 4: {b}}},
		"invalid document": {"a: b # regcred:disable=sibling-path\n---\n\t: [ # regcred:disable=open-domain\n", map[int][]string{1: {a}}},
		"not YAML":         {"a: [ # regcred:disable=sibling-path\n", nil},
		"other text":       {"# regcred:disable sibling-path\n# regcred:disable=\n# regcred:disable=Sibling-Path\na: b\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := suppressedRules([]byte(tt.text))
			if len(got) == 0 {
				got = nil
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestManySuppressions checks a document with many suppression comments. Text inside a scalar must
// not suppress findings. If most matches are inside scalars, the number of YAML parses must be
// limited.
func TestManySuppressions(t *testing.T) {
	comment, scalar := "- a # regcred:disable=open-domain\n", "- 'a # regcred:disable=open-domain'\n"
	for _, tt := range []struct {
		name string
		text string
		want int // lines with suppressions
	}{
		{"comments", strings.Repeat(comment, 500), 500},
		{"one scalar", strings.Repeat(comment, 300) + scalar + strings.Repeat(comment, 200), 500},
		{"scalars", strings.Repeat(scalar, 500), 0},
	} {
		if got := len(suppressedRules([]byte(tt.text))); got != tt.want {
			t.Errorf("%s: %d lines have suppressions, want %d", tt.name, got, tt.want)
		}
	}
}

func TestParseRules(t *testing.T) {
	for list, want := range map[string]string{
		"sibling-path":              "sibling-path",
		"sibling-path, secret-type": "sibling-path secret-type",
		"siblings-path":             `unknown rule "siblings-path"; the most similar is sibling-path`,
		"sibling-path,opendomain":   `unknown rule "opendomain"; the most similar is open-domain`,
		"sibling-path,":             `unknown rule ""; the most similar is no-home`,
	} {
		names, err := ParseRules(list)
		got := strings.Join(names, " ")
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", list, got, want)
		}
	}
	if n := len(RuleNames()); n > 60 {
		t.Errorf("%d rules, want at most 60", n)
	}
}

func TestFilter(t *testing.T) {
	text := func(string) []byte { return []byte("a: b # regcred:disable=sibling-path,missing-binary\n") }
	list := []finding.Finding{
		{Rule: "sibling-path", File: "f", Line: 1}, {Rule: "sibling-path", File: "f", Line: 2}, {Rule: "sibling-path", File: "f"},
		{Rule: "open-domain", File: "f", Line: 1}, {Rule: "missing-binary", File: "f", Line: 1},
	}
	for name, tt := range map[string]struct {
		filter     Filter
		want       []string
		suppressed int
	}{
		"all":      {Filter{}, []string{"sibling-path 2", "sibling-path 0", "open-domain 1", "missing-binary 1"}, 1},
		"only":     {Filter{Only: []string{"open-domain"}}, []string{"open-domain 1", "missing-binary 1"}, 0},
		"disabled": {Filter{Disabled: []string{"open-domain", "missing-binary"}}, []string{"sibling-path 2", "sibling-path 0", "missing-binary 1"}, 1},
		"both":     {Filter{Only: []string{"open-domain"}, Disabled: []string{"open-domain"}}, []string{"missing-binary 1"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			kept, suppressed := tt.filter.Apply(slices.Clone(list), text)
			var got []string
			for _, f := range kept {
				got = append(got, f.Rule+" "+string(rune('0'+f.Line)))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || suppressed != tt.suppressed {
				t.Errorf("%d suppressed, want %d; -want +got\n%s", suppressed, tt.suppressed, diff)
			}
		})
	}
}

func TestSelect(t *testing.T) {
	const text = `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: p
  matchImages:
  - a.example/x
  - "*.io" # regcred:disable=open-domain it checks the host
  # regcred:disable=no-such-rule,unmatchable-pattern
  - a.example/*
  defaultCacheDuration: 0s
  apiVersion: credentialprovider.kubelet.k8s.io/v1
`
	cfg := must.Get(config.Parse("f.yaml", []byte(text)))(t)
	v := must.Get(Validate("f.yaml", cfg, nil, Kubelet{Version: config.NewestKubelet}, ""))(t)
	v.ApplyFilter(&Filter{Disabled: []string{"zero-cache"}})
	if len(v.Findings) != 1 || v.Findings[0].Rule != "sibling-path" || v.Suppressed != 2 {
		t.Errorf("%d suppressed, %v", v.Suppressed, v.Findings)
	}
}
