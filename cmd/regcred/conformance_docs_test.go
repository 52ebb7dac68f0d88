// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugintest"
)

// TestDocsConformance checks that the table in docs/conformance.md has a row for each
// check, in order, with the expected behavior, the reason and a link to the original
// thread.
func TestDocsConformance(t *testing.T) {
	data := must.Get(os.ReadFile("../../docs/conformance.md"))(t)
	type row struct{ ID, Severity string }
	var got, want []row
	text := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\| (error|warning|info) \\|(.*)$").FindAllStringSubmatch(string(data), -1) {
		got = append(got, row{m[1], m[2]})
		text[m[1]] = m[3]
	}
	for _, c := range plugintest.Checks() {
		want = append(want, row{c.ID, string(c.Severity)})
		for name, part := range map[string]string{"title": c.Title, "why": c.Why, "source": c.Source} {
			if part == "" || !strings.Contains(text[c.ID], part) {
				t.Errorf("docs/conformance.md: the row of %s lacks the %s %q", c.ID, name, part)
			}
		}
		if !strings.Contains(text[c.ID], "](https://github.com/") {
			t.Errorf("docs/conformance.md: the row of %s names no thread", c.ID)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/conformance.md: -want +got\n%s", diff)
	}
}

// TestDocsPluginTestJSON checks that the example in docs/cli/plugin-test.md has only
// existing fields, and that all fields are documented.
func TestDocsPluginTestJSON(t *testing.T) {
	docs := readPage(t, "plugin-test.md")
	m := regexp.MustCompile("(?s)`regcred plugin test [^`\n]*-o json [^`\n]*`:\n\n```json\n(.*?)\n```").FindStringSubmatch(docs)
	if m == nil {
		t.Fatal("docs/cli/plugin-test.md has no example of regcred plugin test -o json")
	}
	var r pluginTestReport
	decodeResult(t, "regcred plugin test", m[1], &r)
	severities := []finding.Severity{finding.SeverityOK, finding.SeveritySkipped, finding.SeverityInfo, finding.SeverityWarning, finding.SeverityError}
	if got, want := len(r.Counts), len(severities); got != want {
		t.Errorf("the example has %d counts, want %d", got, want)
	}
	for _, name := range append(fieldNames(t, &pluginTestReport{Provider: "x", Findings: []plugintest.Finding{{Finding: finding.Finding{Fix: "x"}, Kubelet: "x"}}}),
		fieldNames(t, plugintest.Checks()[:1])...) {
		if !strings.Contains(docs, "`"+name+"`") && !strings.Contains(docs, "."+name+"`") {
			t.Errorf("docs/cli/plugin-test.md does not name the field %q of regcred plugin test", name)
		}
	}
}

// fieldNames lists the names of all fields in the JSON of v.
func fieldNames(t *testing.T, v any) []string {
	t.Helper()
	data := must.Get(json.Marshal(v))(t)
	var names []string
	for _, m := range regexp.MustCompile(`"(\w+)":`).FindAllStringSubmatch(string(data), -1) {
		names = append(names, m[1])
	}
	if len(names) < 5 {
		t.Fatalf("found %d fields in %s", len(names), data)
	}
	return names
}
