// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package formats

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/regcred/regcred/internal/must"
)

// TestSARIF validates the SARIF output of regcred validate against the schema that OASIS publishes.
// The inputs are all configurations of the linter's tests, valid and invalid.
func TestSARIF(t *testing.T) {
	program := filepath.Join(t.TempDir(), "regcred")
	build := exec.Command("go", "build", "-o", program, "./cmd/regcred")
	build.Dir = modulePath
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	docs := must.Get(os.ReadFile(filepath.Join(modulePath, "docs/lint/README.md")))(t)
	files := must.Get(filepath.Glob(filepath.Join(modulePath, "lint/testdata/*")))(t)
	more := must.Get(filepath.Glob(filepath.Join(modulePath, "config/testdata/*.*")))(t)
	files = append(append(files, more...), "nowhere/none.yaml", filepath.Join(t.TempDir(), "none at all ä.yaml"))
	results, schema := 0, sarifSchema(t)
	failing := []string{"--kubelet-version=new", files[0]} // regcred fails before it reads a file
	for _, list := range append([][]string{files, failing}, singleFileLists(files)...) {
		out, err := exec.Command(program, append([]string{"validate", "-o", "sarif"}, list...)...).Output()
		if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
			t.Fatal(err)
		}
		results += checkSARIF(t, schema, strings.Join(list, " "), out, string(docs))
	}
	if results < 40 {
		t.Errorf("%d results are too few", results)
	}
}

func singleFileLists(files []string) (lists [][]string) {
	for _, file := range files {
		lists = append(lists, []string{file})
	}
	return lists
}

// checkSARIF validates a report and returns the number of its results.
func checkSARIF(t *testing.T, schema *jsonschema.Schema, name string, out []byte, docs string) int {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(out))
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	if err := schema.Validate(doc); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	var report sarif.Report
	must.Do(t, json.Unmarshal(out, &report))
	results := 0
	for _, run := range report.Runs {
		results += len(run.Results)
		known := map[string]bool{}
		for _, rule := range run.Tool.Driver.Rules {
			known[*rule.ID] = true
			heading := regexp.MustCompile("(?m)^### `" + regexp.QuoteMeta(*rule.ID) + "` \\(([a-z]+)\\)$").FindStringSubmatch(docs)
			if want := "lint/README.md#" + *rule.ID; *rule.ID != "kubelet-refuses" && (heading == nil || !strings.HasSuffix(*rule.HelpURI, want+"-"+heading[1])) {
				t.Errorf("%s: %s leads to no heading", name, *rule.HelpURI)
			}
		}
		for _, r := range run.Results {
			if !known[*r.RuleID] {
				t.Errorf("%s: the rule %s is not explained", name, *r.RuleID)
			}
		}
	}
	return results
}

// TestSARIFWrong verifies that the schema rejects reports with a mistake.
func TestSARIFWrong(t *testing.T) {
	const good = `{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "x"}}, "columnKind": "unicodeCodePoints", "results": [{"ruleId": "a", "level": "note", "message": {"text": "b"}}]}]}`
	schema := sarifSchema(t)
	valid := func(text string) error {
		doc := must.Get(jsonschema.UnmarshalJSON(strings.NewReader(text)))(t)
		return schema.Validate(doc)
	}
	must.Do(t, valid(good))
	for _, change := range [][2]string{{`"note"`, `"info"`}, {`{"text": "b"}`, `{}`}, {`"unicodeCodePoints"`, `"bytes"`}, {`{"name": "x"}`, `{}`}, {`"ruleId"`, `"rule"`}} {
		if valid(strings.Replace(good, change[0], change[1], 1)) == nil {
			t.Errorf("%s in place of %s is taken", change[1], change[0])
		}
	}
}

// sarifSchema returns the schema of SARIF 2.1.0 (errata 01) as published by OASIS. It reads the
// schema from a constant of a Go library. The library's own validation is not usable: it rewrites
// fields so that the schema rejects them.
func sarifSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif").Output()
	if err != nil {
		t.Fatal(err)
	}
	source := must.Get(parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "schema.go"), nil, 0))(t)
	text := ""
	ast.Inspect(source, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && text == "" {
			text = strings.Trim(lit.Value, "`")
		}
		return true
	})
	doc := must.Get(jsonschema.UnmarshalJSON(strings.NewReader(text)))(t)
	c := jsonschema.NewCompiler()
	must.Do(t, c.AddResource("sarif.json", doc))
	return must.Get(c.Compile("sarif.json"))(t)
}
