// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/must"
)

// TestDocsQuoteExamples verifies that Go code in README.md, docs/library.md and the package
// comments is copied from examples, which are compiled and run.
func TestDocsQuoteExamples(t *testing.T) {
	var examples strings.Builder
	for _, name := range []string{"example_test.go", "kubelet_example_test.go", "keychain/example_test.go", "keychain/orasclient/example_test.go"} {
		examples.WriteString(readLines(t, name))
	}
	quoted := func(code string) bool {
		return strings.Contains(examples.String(), code) || strings.Contains(examples.String(), indentCode(code))
	}
	block := regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	for _, name := range []string{"README.md", "docs/library.md"} {
		blocks := block.FindAllStringSubmatch(readLines(t, name), -1)
		if len(blocks) == 0 {
			t.Errorf("%s: no Go code found", name)
		}
		for _, b := range blocks {
			if !quoted(b[1]) {
				t.Errorf("%s: not in an example:\n%s", name, b[1])
			}
		}
	}
	for _, name := range []string{"doc.go", "keychain/keychain.go", "keychain/orasclient/client.go"} {
		comment, _, _ := strings.Cut(readLines(t, name), "\npackage ")
		snippet := strings.Join(regexp.MustCompile(`(?m)^//\t.*\n`).FindAllString(comment, -1), "")
		if snippet = strings.ReplaceAll(snippet, "//\t", ""); snippet == "" || !quoted(snippet) {
			t.Errorf("%s: not in an example:\n%s", name, snippet)
		}
	}
}

// indentCode adds a tab to every line that is not empty.
func indentCode(code string) string {
	return regexp.MustCompile("(?m)^(.)").ReplaceAllString(code, "\t$1")
}

// maxDocsWords limits the length of all documents together, in words as counted by wc -w.
const maxDocsWords = 72_500

// TestDocsLinks verifies that the file of every relative link and the heading of every fragment
// exist. It also verifies that the documents do not exceed maxDocsWords.
func TestDocsLinks(t *testing.T) {
	var names []string
	for _, glob := range []string{"*.md", "docs/*.md", "docs/*/*.md", "docs/*/*/*.md"} {
		found := must.Get(filepath.Glob(glob))(t)
		names = append(names, found...)
	}
	links, words := 0, 0
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, name := range names {
		name = filepath.ToSlash(name)
		text := readLines(t, name)
		words += len(strings.Fields(text))
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, fragment, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			links++
			file := name
			if target != "" {
				file = path.Join(path.Dir(name), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: link to %s: %v", name, m[1], err)
				continue
			}
			if fragment != "" && !headingAnchors(t, file)[fragment] {
				t.Errorf("%s: link to %s: there is no such heading", name, m[1])
			}
		}
	}
	if links == 0 {
		t.Error("no links found")
	}
	if words > maxDocsWords {
		t.Errorf("the documents have %d words, limit %d", words, maxDocsWords)
	}
}

// headingAnchors returns the anchors that GitHub generates for a document's headings.
func headingAnchors(t *testing.T, name string) map[string]bool {
	t.Helper()
	anchors := map[string]bool{}
	drop := regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ +(.+)$`).FindAllStringSubmatch(readLines(t, name), -1) {
		text := drop.ReplaceAllString(strings.ToLower(m[1]), "")
		anchors[strings.ReplaceAll(text, " ", "-")] = true
	}
	return anchors
}

func readLines(t *testing.T, name string) string {
	t.Helper()
	data := must.Get(os.ReadFile(name))(t)
	return strings.ReplaceAll(string(data), "\r\n", "\n") // git may check out files with CRLF
}

// TestDocsNewestKubelet verifies that documents and doc comments mention the newest kubelet
// that package config supports.
func TestDocsNewestKubelet(t *testing.T) {
	for file, claim := range map[string]string{
		"README.md":              `behaves like kubelet (1\.\d+)`,
		"doc.go":                 `behaves like kubelet (1\.\d+)`,
		"config/config.go":       `rejects what kubelet (1\.\d+)`,
		"config/kind.go":         `Kubelet (1\.\d+) reads all`,
		"config/schema.go":       `plugin \((1\.\d+)\)`,
		"match/match.go":         `if and only if kubelet (1\.\d+)`,
		"plugin/codec.go":        `rejects what kubelet (1\.\d+)`,
		"plugin/types.go":        `kubelet (1\.\d+) still`,
		"docs/library.md":        `kubelet (1\.\d+)`,
		"docs/project/parity.md": `parser behaves like kubelet (1\.\d+)`,
	} {
		found := regexp.MustCompile(claim).FindStringSubmatch(readLines(t, file))
		if found == nil || found[1] != config.NewestKubelet {
			t.Errorf("%s: %q matches %q, want version %s", file, claim, found, config.NewestKubelet)
		}
	}
}

// TestDocsDirectories checks that CONTRIBUTING.md lists the directories in internal/.
func TestDocsDirectories(t *testing.T) {
	data := must.Get(os.ReadFile("CONTRIBUTING.md"))(t)
	var listed []string
	for _, row := range regexp.MustCompile(`(?m)^\|[^|]*\|`).FindAllString(string(data), -1) {
		in := ""
		for _, m := range regexp.MustCompile("`([^`]+)/`").FindAllStringSubmatch(row, -1) {
			dir := m[1]
			if top, rest, ok := strings.Cut(dir, "/"); ok {
				in, dir = top, rest
			}
			if in == "internal" && !strings.HasPrefix(dir, "test") {
				listed = append(listed, dir)
			}
		}
	}
	entries := must.Get(os.ReadDir("internal"))(t)
	var present []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "test") {
			present = append(present, e.Name())
		}
	}
	slices.Sort(listed)
	if diff := cmp.Diff(present, listed); diff != "" {
		t.Errorf("the directories in internal/ and those that CONTRIBUTING.md lists differ (-present +listed):\n%s", diff)
	}
}
