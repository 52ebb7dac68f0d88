// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package transcript checks the documentation. Tests run the commands of a section and compare the
// output with the page.
package transcript

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var walkthroughPattern = flag.String("walkthrough", "", "run the walk-through in this `file`, and write what the commands print into it")

// Replay checks a section of the documentation. It passes the section to start, runs the section's
// commands ("$ …") with the function that start returns, and compares their output with the
// section.
func Replay(t *testing.T, path, heading string, start func(section string) (run func(t *testing.T, command string) string)) {
	t.Helper()
	write := *walkthroughPattern != "" && filepath.Base(*walkthroughPattern) == filepath.Base(path)
	if write {
		path = *walkthroughPattern
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, section, ok := strings.Cut(string(data), heading)
	if !ok {
		t.Fatalf("%s has no section %q", path, strings.TrimSpace(heading))
	}
	section, after, more := strings.Cut(section, "\n## ")
	got := runCommands(t, section, start(section))
	if webTokenPattern.MatchString(got) {
		t.Fatal("a command shows a token")
	}
	if !write {
		if diff := cmp.Diff(replaceVariableParts(section), replaceVariableParts(got)); diff != "" {
			t.Errorf("it goes another way; if that is meant, run the test with -walkthrough %s (-doc +got)\n%s", path, diff)
		}
		return
	}
	if more {
		after = "\n## " + after
	}
	if err := os.WriteFile(path, []byte(before+heading+got+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

var fencePattern = regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```$")

// ExampleFiles returns the files that a section shows, by name: the blocks whose first line is "#
// NAME.yaml".
func ExampleFiles(section string) map[string]string {
	files := map[string]string{}
	for _, block := range fencePattern.FindAllStringSubmatch(section, -1) {
		first, _, _ := strings.Cut(block[1], "\n")
		if name, ok := strings.CutPrefix(first, "# "); ok {
			files[name] = block[1]
		}
	}
	return files
}

// runCommands runs the commands of a section and returns the section with their actual output.
func runCommands(t *testing.T, section string, run func(*testing.T, string) string) string {
	t.Helper()
	return fencePattern.ReplaceAllStringFunc(section, func(block string) string {
		head, body, _ := strings.Cut(block, "\n")
		if !strings.HasPrefix(body, "$ ") {
			return block
		}
		var b strings.Builder
		b.WriteString(head + "\n")
		for line := range strings.Lines(body) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				b.WriteString(line + run(t, command))
			}
		}
		return b.String() + "```"
	})
}

// webTokenPattern matches the start of a JSON Web Token.
var webTokenPattern = regexp.MustCompile(`\beyJ`)

// variablePatterns lists the patterns that differ between runs, and their replacements.
var variablePatterns = []struct{ pattern, name string }{
	{`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`, "UID"},
	{`(\d{4}-\d\d-\d\d )?\b\d\d:\d\d(:\d\d(\.\d+)?)?\b`, "TIME"},
	{`\b[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ TIME \d{4}\b`, "DATE"},
	{`\b\d+(\.\d+)? ?(ns|µs|ms|s|m\d*s?)\b`, "SPAN"},
	{`(process|pid) \d+`, "$1 N"},
	{`sha256:[0-9a-f]+|\b[0-9a-f]{64}\b`, "HASH"},
	{`\b[EI]\d{4} TIME +\d+ `, "LINE "},      // kubelet log lines
	{`\bErrImagePull\b`, "ImagePullBackOff"}, // depends on the kubelet's retries
	{` +`, " "},                              // column widths
}

// replaceVariableParts returns text with the parts replaced that differ between runs.
func replaceVariableParts(text string) string {
	for _, c := range variablePatterns {
		text = regexp.MustCompile(c.pattern).ReplaceAllString(text, c.name)
	}
	return text
}
