// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/shown"
)

func readDocs(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestDocsFlags keeps docs/cli.md in step with the commands and their flags.
func TestDocsFlags(t *testing.T) {
	docs := readDocs(t)
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		section := "\n## " + cmd.CommandPath() + "\n"
		ofCobra := cmd.Name() == "help" || cmd.HasParent() && cmd.Parent().Name() == "completion"
		if !cmd.HasSubCommands() && !ofCobra && !strings.Contains(docs, section) {
			t.Errorf("docs/cli.md has no section %q", cmd.CommandPath())
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !mentions(docs, f.Name) {
				t.Errorf("docs/cli.md does not mention --%s of %s", f.Name, cmd.CommandPath())
			}
		})
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	root := (&app{}).rootCmd()
	visit(root)
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !mentions(docs, f.Name) {
			t.Errorf("docs/cli.md does not mention --%s", f.Name)
		}
	})
}

// mentions reports whether a flag stands in a text, and not only another whose
// name begins alike.
func mentions(text, flag string) bool {
	return regexp.MustCompile(`(^|[^-\w])--` + regexp.QuoteMeta(flag) + `($|[^-\w])`).MatchString(text)
}

func TestMentions(t *testing.T) {
	for text, want := range map[string]bool{"--namespace": false, "--name-x": false, "---name": false, "`--name`": true, "a --name=x": true, "--name": true} {
		if got := mentions(text, "name"); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

// TestDocsJSON decodes the examples of docs/cli.md, so that each has no field
// that is not written, and checks that each field that is written is named.
func TestDocsJSON(t *testing.T) {
	docs := readDocs(t)
	example := regexp.MustCompile("(?s)`(regcred [a-z ]+ -o json)`:\n\n```json\n(.*?)\n```")
	results := map[string]any{
		"regcred get -o json":        &getResult{},
		"regcred explain -o json":    &report.Explanation{},
		"regcred validate -o json":   &report.Validation{},
		"regcred plugin run -o json": &pluginRunReport{},
		"regcred version -o json":    &versionInfo{},
		"regcred pull -o json":       &pullReport{},
		"regcred prepull -o json":    &pullReport{},
		"regcred doctor -o json":     &doctor.Report{},
		"regcred install -o json":    &changeReport{},
		"regcred status -o json":     &statusReport{},
		"regcred nodes -o json":      &nodesReport{},

		"regcred helper status -o json": &helperReport{},
	}
	for _, m := range example.FindAllStringSubmatch(docs, -1) {
		result, ok := results[m[1]]
		if !ok {
			t.Errorf("docs/cli.md has an example of an unknown command %s", m[1])
			continue
		}
		delete(results, m[1])
		decodeResult(t, m[1], m[2], result)
	}
	for command := range results {
		t.Errorf("docs/cli.md has no example of %s", command)
	}
	for _, name := range jsonNames(t) {
		if !strings.Contains(docs, `"`+name+`"`) && !strings.Contains(docs, "`"+name+"`") && !strings.Contains(docs, "."+name+"`") {
			t.Errorf("docs/cli.md does not name the field %q", name)
		}
	}
}

// decodeResult decodes what a command writes, which has the fields of result
// and the version of the schema.
func decodeResult(t *testing.T, command, document string, result any) {
	t.Helper()
	version := fmt.Sprintf("\n  \"schemaVersion\": %d,\n", shown.SchemaVersion)
	if strings.Count(document, version) == 0 {
		t.Errorf("%s: no schemaVersion %d", command, shown.SchemaVersion)
	}
	dec := json.NewDecoder(strings.NewReader(strings.Replace(document, version, "\n", 1)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(result); err != nil {
		t.Errorf("%s: %v", command, err)
	}
}

// jsonNames lists the names of all JSON fields in this package's source.
func jsonNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, file := range []string{"../../internal/report/attempt.go", "changereport.go", "demo.go", "../../internal/doctor/doctor.go", "../../internal/report/explanation.go", "get.go", "helperreport.go", "../../internal/report/credential.go", "pluginrunreport.go", "pulltry.go", "pullreport.go", "nodesreport.go", "../../internal/fleet/node.go", "../../internal/fleet/rollout.go", "../../internal/agent/status.go", "status.go", "../../internal/report/validation.go", "../../internal/report/verdict.go", "version.go", "root.go"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("`json:\"(\\w+)").FindAllStringSubmatch(string(data), -1) {
			names = append(names, m[1])
		}
	}
	if len(names) < 50 {
		t.Fatalf("found %d JSON fields, want more: has the source moved?", len(names))
	}
	return names
}
