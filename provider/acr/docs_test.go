// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// TestDocsQuoteMessages verifies that the error messages in the documentation exist in the code.
// Values that the code fills in are ignored.
func TestDocsQuoteMessages(t *testing.T) {
	sources := ""
	for _, pattern := range []string{"*.go", "../../internal/remote/*.go", "../../internal/hostpattern/*.go", "../../internal/registry/*.go", "../../internal/secretfile/*.go", "../../internal/regularfile/*.go", "../../cmd/acr-credential-provider/main.go"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(names), err)
		}
		for _, name := range names {
			if !strings.HasSuffix(name, "_test.go") {
				sources += readFile(t, name)
			}
		}
	}
	sources = regexp.MustCompile(`"\s*\+\s*"`).ReplaceAllString(sources, "")
	sources = strings.NewReplacer(`\"`, `"`, "%.100q", `"…"`, "%.200q", `"…"`, "%q", `"…"`).Replace(sources)
	_, section, found := strings.Cut(readFile(t, "../../docs/plugins/acr.md"), "\n## Failure messages\n")
	if !found {
		t.Fatal("the section on failure messages is missing")
	}
	// This matches values that the code fills in, such as hosts, counts and statuses.
	filled := regexp.MustCompile(`"?…"?|"|, \d times|\b\d+(\.\d+)?s\b|status \d+ [A-Z][A-Za-z ]*|\b\d+ bytes|; |: |line N|no such file or directory|` +
		`\([a-zA-Z_]+(, AADSTS\d+)?\)|service account|kubernetes\.azure\.com/[a-z-]+|(access|refresh)_token|[A-Za-z]+ is not a (boolean|string)$|` +
		`not part of Azure Container Registry|Azure Container Registry|remove it from matchImages, |, or set|=(none|trusted|empty)|is a named pipe|permission denied`)
	pieces := 0
	for _, row := range regexp.MustCompile("(?m)^\\| `(.*?)` \\|").FindAllStringSubmatch(section, -1) {
		for _, message := range strings.Split(row[1], "`, `") {
			for _, piece := range filled.Split(message, -1) {
				piece = strings.TrimSpace(strings.TrimSuffix(piece, "service account"))
				if len(piece) < 8 {
					continue
				}
				pieces++
				if !strings.Contains(sources, piece) {
					t.Errorf("not in the code: %q", piece)
				}
			}
		}
	}
	if pieces < 60 {
		t.Errorf("only %d pieces were compared", pieces)
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data := must.Get(os.ReadFile(name))(t)
	return strings.ReplaceAll(string(data), "\r\n", "\n")
}
