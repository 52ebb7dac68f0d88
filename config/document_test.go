// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// unusualSyntax returns functions that change the syntax of a document. The kubelet reads the
// changed document like the original.
func unusualSyntax() map[string]func(string) string {
	replace := func(old, new string) func(string) string {
		return func(s string) string { return strings.ReplaceAll(s, old, new) }
	}
	around := func(before, after string) func(string) string {
		return func(s string) string { return before + s + after }
	}
	return map[string]func(string) string{
		"as it is":                      around("", ""),
		"a second document":             around("", "---\na: 1\n"),
		"a broken second document":      around("", "---\n{ [ :\n"),
		"a broken one behind dots":      around("", "...\n%\"\n"),
		"a broken one on the mark":      around("", "--- \"\n"),
		"a mark of the byte order":      around("\ufeff", ""),
		"that, and a broken second":     around("\ufeff", "---\t[\n"),
		"a directive":                   around("%YAML 1.1\n---\n", ""),
		"a directive, and a broken one": around("%YAML 1.1\n# c\n---\n", "...\n%FOO\n--- *x\n"),
		"comments":                      around("# a\n\n  # b\n", "# c\n  # d\n"),
		"CR LF":                         replace("\n", "\r\n"),
		"CR":                            replace("\n", "\r"),
		"CR, and a broken second":       func(s string) string { return strings.ReplaceAll(s+"---\n]\n", "\n", "\r") },
		"U+2028":                        replace("\n", "\u2028"),
		"U+0085, and a broken second":   func(s string) string { return strings.ReplaceAll(s+"---\n]\n", "\n", "\u0085") },
		"tabs":                          replace(": ", ":\t"),
		"UTF-16, little end":            func(s string) string { return toUTF16(s, 0, 1) },
		"UTF-16, big end":               func(s string) string { return toUTF16(s, 1, 0) },
		"UTF-16, and a broken second":   func(s string) string { return toUTF16(s+"---\n[\n", 0, 1) },
	}
}

func toUTF16(s string, low, high int) string {
	var out []byte
	for _, u := range utf16.Encode([]rune("\ufeff" + s)) {
		var b [2]byte
		b[low], b[high] = byte(u), byte(u>>8)
		out = append(out, b[:]...)
	}
	return string(out)
}

// TestAliasesOfUnusualDocuments verifies that aliases with a small expansion are accepted.
// Aliases with a large expansion must be rejected before they are expanded.
func TestAliasesOfUnusualDocuments(t *testing.T) {
	doc := func(long, count int) string {
		return testConfig + "  args:\n  - &a " + strings.Repeat("x", long) + "\n" + strings.Repeat("  - *a\n", count) + "  env:\n  - &e {name: A, value: b}\n  - {<<: *e, name: B}\n"
	}
	const refused = "f: YAML aliases expand to more than 16 MiB or more than 131072 values: replace the aliases with their values"
	for name, write := range unusualSyntax() {
		t.Run(name, func(t *testing.T) {
			small := write(strings.Replace(doc(10, 10), "<<: *e, name: B", "<<: *e", 1))
			if _, err := yaml.YAMLToJSONStrict([]byte(small)); err != nil {
				t.Fatalf("the deciding parser refuses it: %v", err)
			}
			if _, err := Parse("f", []byte(small)); err != nil {
				t.Errorf("refused: %v", err)
			}
			_, err := Parse("f", []byte(write(doc(1<<16, 300))))
			if diff := cmp.Diff([]string{refused}, errorLines(t, "", err)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestPositionsOfUnusualDocuments verifies that lines and columns are the same as in an editor.
// Editors also treat U+2028 as a line end.
func TestPositionsOfUnusualDocuments(t *testing.T) {
	before := map[string]int{"a directive": 2, "a directive, and a broken one": 3, "comments": 3}
	for name, write := range unusualSyntax() {
		_, err := Parse("f", []byte(write(strings.Replace(testConfig, "name: ecr", "name: 5", 1))))
		want := fmt.Sprintf(`f:%d:9: providers[0].name: is a number, but must be a string: quote it: "5"`, 4+before[name])
		if diff := cmp.Diff([]string{want}, errorLines(t, "", err)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// TestGarbageWithoutMark verifies that a value with less indentation ends the document. Text
// after that value is ignored, unless the document has aliases. Then the file is rejected,
// because the expansion of the aliases cannot be checked.
func TestGarbageWithoutMark(t *testing.T) {
	indented := func(s string) string {
		return "  " + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n  ") + "\n}%\n"
	}
	if _, err := Parse("f", []byte(indented(testConfig))); err != nil {
		t.Errorf("refused: %v", err)
	}
	const want = "f: YAML aliases cannot be checked, because the text after the document has no --- separator: remove that text"
	for name, args := range map[string]string{
		"few":  "  args: [&a x, *a]\n",
		"many": "  args:\n  - &a " + strings.Repeat("x", 1<<16) + "\n" + strings.Repeat("  - *a\n", 300),
	} {
		_, err := Parse("f", []byte(indented(testConfig+args)))
		if diff := cmp.Diff([]string{want}, errorLines(t, "", err)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	_, err := Parse("f", []byte("# - &a x\n\n  # - *a\n"))
	if want := "f: is empty: add a CredentialProviderConfig of version kubelet.config.k8s.io/v1"; err == nil || err.Error() != want {
		t.Errorf("comments alone: %v, want %s", err, want)
	}
	// This file contains neither anchors nor aliases.
	if _, err := Parse("f", []byte(indented(testConfig+"  args: ['*a', '&b', \"*c\", d*e, f&g]\n"))); err != nil {
		t.Errorf("quoted: refused: %v", err)
	}
}

// TestDeepAliases verifies that aliases with a deeper nesting than JSON allows are rejected.
func TestDeepAliases(t *testing.T) {
	const maxDepth = 10000 // of textedit.ExpandedSize
	n := maxDepth + 5
	text := "a: &a " + strings.Repeat("x", 1<<16) + "\nb:\n" + strings.Repeat("- ", n/2) + strings.Repeat("[", n/2+10) + strings.Repeat("*a, ", 300) + strings.Repeat("]", n/2+10) + "\n"
	_, err := Parse("f", []byte(text))
	if err == nil || !strings.Contains(err.Error(), "aliases expand to more") {
		t.Errorf("got %v", err)
	}
}
