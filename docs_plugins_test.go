// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/lint"
)

// TestDocsSampleConfigurations verifies that a kubelet accepts every configuration in
// docs/plugins, and that lint reports no errors or warnings for it.
func TestDocsSampleConfigurations(t *testing.T) {
	block := regexp.MustCompile("(?ms)^```yaml\n(apiVersion: kubelet\\.config\\.k8s\\.io/.*?)^```$")
	names, err := filepath.Glob("docs/plugins/*.md")
	if err != nil || len(names) == 0 {
		t.Fatalf("docs/plugins: %d documents, %v", len(names), err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return filepath.Base(name) == "README.md" })
	for _, name := range names {
		samples := block.FindAllStringSubmatch(readLines(t, name), -1)
		if len(samples) == 0 {
			t.Errorf("%s: no sample configuration", name)
		}
		for _, sample := range samples {
			for _, problem := range configProblems(t, sample[1]) {
				first, _, _ := strings.Cut(strings.TrimSpace(sample[1]), "\n")
				t.Errorf("%s: the sample that begins with %q: %s", name, first, problem)
			}
		}
	}
}

// configProblems returns the errors and warnings for a configuration.
func configProblems(t *testing.T, text string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	config, err := config.Load(file)
	if err == nil {
		err = config.Validate()
	}
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
	for _, f := range lint.Check(config) {
		if f.Severity != finding.SeverityInfo {
			found = append(found, string(f.Rule)+": "+f.Message)
		}
	}
	return found
}
