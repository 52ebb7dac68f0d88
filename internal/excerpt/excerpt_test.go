// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package excerpt

import (
	"strings"
	"testing"
)

func TestValue(t *testing.T) {
	long := strings.Repeat("x", 128)
	for value, want := range map[string]string{
		"":                        "",
		"ecr":                     "ecr",
		"ecr env: secret":         "ecr…",
		"ecr\nsecret":             "ecr…",
		" secret":                 "…",
		"a\x00secret":             "a…",
		"a\u00a0secret":           "a…",
		long:                      long,
		long + "x":                long + "…",
		long[1:] + "ü" + "secret": long[1:] + "…", // does not end with a part of a character
	} {
		if got := TruncateValue(value); got != want {
			t.Errorf("%q: got %q, want %q", value, got, want)
		}
	}
}

func TestPattern(t *testing.T) {
	for pattern, want := range map[string]string{
		"":                                         "",
		"*.example.com:5000/team":                  "*.example.com:5000/team",
		"user:secret@r.example/x":                  "…@r.example/x",
		"user:sec@ret@r.example":                   "…@r.example",
		"https://user:secret@r.example":            "https://…@r.example",
		"r.example/x@sha256:0123":                  "r.example/x@sha256:0123",
		"r.example/x@sha512:0123":                  "r.example/x@sha512:0123",
		"r.example/x?token=secret":                 "r.example/x?…",
		"https://u:secret@r.example/x@sha256:0123": "https://…@r.example/x@sha256:0123",
		"u:secret@sha256.example/x":                "…@sha256.example/x",
		"u:sec/ret@r.example":                      "…@r.example",
		"secret@r.example/a@b":                     "…@b",
		"r.example:5000/x@latest":                  "r.example:5000/x@latest",
		"u:a://secret@r.example":                   "u:a://…@r.example",
		"secret@a://b@r.example":                   "…@r.example",
		"r.example/x#secret":                       "r.example/x#…",
		"user:secret@r.example/x?secret#x":         "…@r.example/x?…",
		"r.example/x?":                             "r.example/x?",
		"?token=secret":                            "?…",
		"#secret":                                  "#…",
		"://user:secret@r.example":                 "://…@r.example",
	} {
		if got := RedactPattern(pattern); got != want {
			t.Errorf("%q: got %q, want %q", pattern, got, want)
		}
	}
}
