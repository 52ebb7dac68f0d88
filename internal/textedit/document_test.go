// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package textedit

import "testing"

func TestSecondDocument(t *testing.T) {
	for text, want := range map[string]int{
		"a: 1\n":                                       0,
		"---\na: 1\n":                                  0,
		"a: 1\n---\n":                                  0,
		"a: 1\n---\n# comment\n":                       0,
		"a: 1\n---\n---\nb: 1\n":                       2,
		"a: 1\n---\nb: 1\n":                            2,
		"---\n---\nb: 1\n":                             2,
		"a: 1\n...\n# c\n%YAML 1.1\n":                  0,
		"a: 1\n...\n---\n{ [ :\n":                      2, // the second document is invalid, but it is never parsed
		"a: 1\r---\r\"":                                2,
		"a: 1\u2028--- \u2028b: 1":                     2,
		"\ufeff# c\n--- a\n---\tb\n":                   3,
		"a: 1\n----\n---b\n ---\n":                     0,
		"\xff\xfea\x00\n\x00-\x00-\x00-\x00 \x00b\x00": 2,
		"a: 1\n--- {b: 1}\n":                           2,
		"a: |\n  ---\n  b\n":                           0,
		"{\"a\": \"---\"}\n---\nb: 1\n":                0, // invalid JSON, which config.Load rejects
	} {
		if _, got := KubeletDocument([]byte(text)); got != want {
			t.Errorf("%q: line %d, want %d", text, got, want)
		}
	}
}
