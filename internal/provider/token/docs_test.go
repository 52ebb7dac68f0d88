// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// TestDocsFailureMessages verifies that the error messages in the documentation exist in the code.
func TestDocsFailureMessages(t *testing.T) {
	var sources strings.Builder
	for _, glob := range []string{"../../secretfile/*.go", "../../regularfile/*.go", "../../jwt/*.go", "../../hostpattern/*.go", "../../registry/*.go", "*.go", "../../remote/*.go"} {
		names, err := filepath.Glob(glob)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %q, %v", glob, names, err)
		}
		for _, name := range names {
			if !strings.HasSuffix(name, "_test.go") {
				sources.WriteString(readText(t, name))
			}
		}
	}
	// Join string literals that are concatenated in the code.
	code := regexp.MustCompile(`" \+\s*"`).ReplaceAllString(sources.String(), "")
	_, table, found := strings.Cut(readText(t, "../../../docs/plugins/token.md"), "## Failure messages")
	messages := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(firstCells(table), -1)
	if !found || len(messages) < 20 {
		t.Fatalf("found %d messages", len(messages))
	}
	for _, m := range messages {
		for piece := range strings.SplitSeq(regexp.MustCompile(`status \d+|POST|, but text/html| bytes`).ReplaceAllString(m[1], "…"), "…") {
			if piece = strings.Trim(piece, " {}:;,"); !strings.Contains(code, piece) {
				t.Errorf("%q: %q is not in the code", m[1], piece)
			}
		}
	}
}

// firstCells returns the first cell of each row in a Markdown table.
func firstCells(table string) string {
	var cells []string
	for line := range strings.Lines(table) {
		if cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok {
			cells = append(cells, cell)
		}
	}
	return strings.Join(cells, "\n")
}

func readText(t *testing.T, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile(name))(t)
	return string(text)
}
