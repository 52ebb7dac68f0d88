// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/textfmt"
)

var updateDocs = flag.Bool("update-docs", false, "write the generated parts of docs/cli")

const docsDir = "../../docs/cli"

// readDocs returns all pages about commands.
func readDocs(t *testing.T) string {
	t.Helper()
	pages, err := filepath.Glob(docsDir + "/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages in docs/cli: %v", len(pages), err)
	}
	var all strings.Builder
	for _, page := range pages {
		all.WriteString(readPage(t, filepath.Base(page)) + "\n")
	}
	return all.String()
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join(docsDir, name)))(t)
	return strings.ReplaceAll(string(data), "\r\n", "\n") // git may check out CRLF
}

// TestDocsUsage verifies that each command has a page that quotes its usage, and that the index
// links to the page. "go test ./cmd/regcred -run TestDocsUsage -update-docs" updates the quoted
// usage.
func TestDocsUsage(t *testing.T) {
	index := readPage(t, "README.md")
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		ofCobra := cmd.Name() == "help" || cmd.HasParent() && cmd.Parent().Name() == "completion"
		if cmd.Hidden || ofCobra {
			return
		}
		page := "README.md"
		if cmd.HasParent() {
			page = strings.ReplaceAll(strings.TrimPrefix(cmd.CommandPath(), "regcred "), " ", "-") + ".md"
		}
		if !cmd.HasSubCommands() || !cmd.HasParent() || cmd.Name() == "completion" {
			compareUsage(t, cmd, page)
			if cmd.HasParent() && !strings.Contains(index, "]("+page+")") {
				t.Errorf("docs/cli/README.md does not link to %s", page)
			}
		}
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit((&app{}).rootCmd())
}

// compareUsage compares the quoted usage in a page with the command's, or writes it.
func compareUsage(t *testing.T, cmd *cobra.Command, page string) {
	t.Helper()
	const begin, end = "<!-- generated -->\n", "<!-- end -->\n"
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.InitDefaultHelpFlag()
	must.Do(t, printUsage(cmd))
	text, _, _ := strings.Cut(out.String(), "\nGlobal flags (see ")
	want := "```text\n" + strings.TrimSpace(text) + "\n```\n"
	doc := readPage(t, page)
	before, rest, found := strings.Cut(doc, begin)
	got, after, ended := strings.Cut(rest, end)
	switch {
	case !found || !ended:
		t.Errorf("docs/cli/%s has no generated part", page)
	case *updateDocs:
		must.Do(t, os.WriteFile(filepath.Join(docsDir, page), []byte(before+begin+want+end+after), 0o644))
	case got != want:
		t.Errorf("docs/cli/%s: run this test with -update-docs: -want +got\n%s", page, gocmp.Diff(want, got))
	}
}

// TestDocsAgentFlags verifies that the page about the hidden agent commands names their flags.
func TestDocsAgentFlags(t *testing.T) {
	docs := readPage(t, "agent.md")
	agent, _, err := (&app{}).rootCmd().Find([]string{"agent"})
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range agent.Commands() {
		if !strings.Contains(docs, "\n## "+cmd.CommandPath()+"\n") {
			t.Errorf("docs/cli/agent.md has no section about %s", cmd.Name())
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !mentionsFlag(docs, f.Name) {
				t.Errorf("docs/cli/agent.md does not mention --%s of %s", f.Name, cmd.CommandPath())
			}
		})
	}
}

// mentionsFlag reports whether text contains a flag, and not only a longer flag with the
// same prefix.
func mentionsFlag(text, flag string) bool {
	return regexp.MustCompile(`(^|[^-\w])--` + regexp.QuoteMeta(flag) + `($|[^-\w])`).MatchString(text)
}

func TestMentions(t *testing.T) {
	for text, want := range map[string]bool{"--namespace": false, "--name-x": false, "---name": false, "`--name`": true, "a --name=x": true, "--name": true} {
		if got := mentionsFlag(text, "name"); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

// TestDocsJSON checks that the examples in docs/cli have only existing fields, and that
// every field is documented.
func TestDocsJSON(t *testing.T) {
	docs := readDocs(t)
	example := regexp.MustCompile("(?s)`(regcred [a-z ]+ -o json)`:\n\n```json\n(.*?)\n```")
	results := map[string]any{
		"regcred get -o json":        &getResult{},
		"regcred explain -o json":    &report.Explanation{},
		"regcred validate -o json":   &report.Validation{},
		"regcred plugin run -o json": &documentedPluginRun{},
		"regcred version -o json":    &versionInfo{},
		"regcred pull -o json":       &pullReport{},
		"regcred prepull -o json":    &pullReport{},
		"regcred doctor -o json":     &doctor.Report{},
		"regcred install -o json":    &report.Change{},
		"regcred status -o json":     &report.Status{},
		"regcred nodes -o json":      &nodesReport{},
		"regcred secrets -o json":    &secretsReport{},

		"regcred helper status -o json": &helperReport{},
	}
	for _, m := range example.FindAllStringSubmatch(docs, -1) {
		result, ok := results[m[1]]
		if !ok {
			t.Errorf("docs/cli has an example of an unknown command %s", m[1])
			continue
		}
		delete(results, m[1])
		decodeResult(t, m[1], m[2], result)
	}
	for command := range results {
		t.Errorf("docs/cli has no example of %s", command)
	}
	for _, name := range jsonNames(t) {
		if !strings.Contains(docs, `"`+name+`"`) && !strings.Contains(docs, "`"+name+"`") && !strings.Contains(docs, "."+name+"`") {
			t.Errorf("docs/cli does not name the field %q", name)
		}
	}
}

// documentedPluginRun is a pluginRunReport whose request has the documented fields.
type documentedPluginRun struct {
	pluginRunReport
	Request struct {
		Kind        string            `json:"kind,omitempty"`
		APIVersion  string            `json:"apiVersion,omitempty"`
		Image       string            `json:"image"`
		Token       string            `json:"serviceAccountToken,omitempty"`
		Annotations map[string]string `json:"serviceAccountAnnotations,omitempty"`
	} `json:"request"`
}

// decodeResult decodes a command's JSON output into result. It reports unknown fields, and a
// missing schema version.
func decodeResult(t *testing.T, command, document string, result any) {
	t.Helper()
	version := fmt.Sprintf("\n  \"schemaVersion\": %d,\n", textfmt.SchemaVersion)
	if strings.Count(document, version) == 0 {
		t.Errorf("%s: no schemaVersion %d", command, textfmt.SchemaVersion)
	}
	dec := json.NewDecoder(strings.NewReader(strings.Replace(document, version, "\n", 1)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(result); err != nil {
		t.Errorf("%s: %v", command, err)
	}
	written, err := json.Marshal(result) // a type with an UnmarshalJSON method ignores unknown fields
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`"(\w+)":`).FindAllString(document, -1) {
		if name != `"schemaVersion":` && !strings.Contains(string(written), name) {
			t.Errorf("%s: the field %s is never written", command, name)
		}
	}
}

// jsonNames lists the names of all JSON fields in the source files of the results.
func jsonNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, file := range []string{"../../internal/report/attempt.go", "../../internal/report/failure.go", "demo.go", "../../internal/doctor/doctor.go", "../../internal/report/explanation.go", "get.go", "helperreport.go", "../../internal/report/credential.go", "pluginrun.go", "pullreport.go", "nodes.go", "secrets.go", "../../internal/pullsecret/status.go", "../../internal/fleet/node.go", "../../internal/fleet/rollout.go", "../../internal/agent/status.go", "../../internal/report/status.go", "../../internal/report/validation.go", "../../internal/report/verdict.go", "version.go", "docs_test.go"} {
		data := must.Get(os.ReadFile(file))(t)
		for _, m := range regexp.MustCompile("`json:\"(\\w+)").FindAllStringSubmatch(string(data), -1) {
			names = append(names, m[1])
		}
	}
	if len(names) < 50 {
		t.Fatalf("found %d JSON fields, want more: has the source moved?", len(names))
	}
	return names
}
