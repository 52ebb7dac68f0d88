// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tempDir creates a directory with a short path in the run's directory.
func tempDir(t testing.TB, name string) string {
	t.Helper()
	d, err := os.MkdirTemp(testRunDir(), name)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// writeFile writes a file and returns its path.
func writeFile(t testing.TB, content string, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// matchingLines returns the lines of a file that contain all texts.
func matchingLines(t testing.TB, path string, texts ...string) (lines []string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if containsAll(line, texts) {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

func containsAll(s string, texts []string) bool {
	for _, text := range texts {
		if !strings.Contains(s, text) {
			return false
		}
	}
	return true
}
