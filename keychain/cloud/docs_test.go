// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cloud_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

func readFile(t *testing.T, name string) string {
	t.Helper()
	data := must.Get(os.ReadFile(name))(t)
	return strings.ReplaceAll(string(data), "\r\n", "\n")
}

// TestDocsQuoteExamples verifies that all Go code in docs/keychain-cloud.md is from
// example_test.go.
func TestDocsQuoteExamples(t *testing.T) {
	examples := readFile(t, "example_test.go")
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(readFile(t, "../../docs/keychain-cloud.md"), -1)
	if len(blocks) == 0 {
		t.Error("no Go code found")
	}
	for _, b := range blocks {
		if code := regexp.MustCompile("(?m)^(.)").ReplaceAllString(b[1], "\t$1"); !strings.Contains(examples, code) {
			t.Errorf("not in example_test.go:\n%s", b[1])
		}
	}
}

// TestDocsQuoteMessages verifies that all messages in docs/keychain-cloud.md are in the source
// code, except for the values that the code fills in.
func TestDocsQuoteMessages(t *testing.T) {
	sources := ""
	for _, pattern := range []string{"*.go", "../../provider/ecr/*.go", "../../provider/gcr/*.go", "../../provider/acr/*.go", "../../internal/secretfile/*.go"} {
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
	sources = strings.ReplaceAll(sources, `\"`, `"`)
	_, section, found := strings.Cut(readFile(t, "../../docs/keychain-cloud.md"), "\n## Failure messages\n")
	if !found {
		t.Fatal("the section on failure messages is missing")
	}
	// These parts are filled in at run time: names, addresses, system errors, step names and
	// constants.
	filled := regexp.MustCompile(`"?…"?|find the pod's AWS credentials|POST https://sts|AccessDenied|permission denied|; |: |workload identity federation \("external_account"\)|GOOGLE_APPLICATION_CREDENTIALS|AZURE_(AUTHORITY_HOST|FEDERATED_TOKEN_FILE)`)
	pieces := 0
	for _, row := range regexp.MustCompile("(?m)^\\| `(.*?)` \\|").FindAllStringSubmatch(section, -1) {
		for _, message := range strings.Split(row[1], "`, `") {
			for _, piece := range filled.Split(message, -1) {
				if piece = strings.TrimSpace(piece); len(piece) < 6 {
					continue
				}
				pieces++
				if !strings.Contains(sources, piece) {
					t.Errorf("not in the code: %q", piece)
				}
			}
		}
	}
	if pieces < 25 {
		t.Errorf("only %d pieces were compared", pieces)
	}
}
