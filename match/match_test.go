// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package match

import (
	"testing"

	"github.com/regcred/regcred/internal/must"
)

func TestPatternMatch(t *testing.T) {
	tests := []struct {
		pattern, image string
		want           bool
		reason         string
	}{
		{"*.io", "a.b.io/x", false, `host: "*.io" has 2 labels, but "a.b.io" has 3 labels (a * matches one label)`},
		{"registry.io", "registry.io:443/x", false, "port: the image has 443, but the pattern has none"},
		{"registry.io:5000", "registry.io/x", false, "port: the pattern has 5000, but the image has none"},
		{"registry.io:5000", "registry.io:443/x", false, "port: the image has 443, but the pattern has 5000"},
		{"registry.io:", "registry.io/x", true, ""},
		{"registry.io/team", "registry.io/team-evil/x", true, ""},
		{"registry.io/*", "registry.io/x", false, `path: "/x" does not begin with "/*" (globs do not work in paths)`},
		{"registry.io/", "registry.io", false, `path: "" does not begin with "/"`},
		{"registry.io/", "registry.io/x", true, ""},
		{"registry.io/%61", "registry.io/a", true, ""},
		{"https://registry.io", "registry.io/x", false, `scheme: patterns cannot have a scheme, so "https" is parsed as the host`},
		{"REGISTRY.io", "registry.io/x", false, `label 1: "registry" does not match "REGISTRY" (matching is case-sensitive)`},
		{"*", "localhost/x", true, ""},
		{"*", "a.b/x", false, `host: "*" has 1 label, but "a.b" has 2 labels (a * matches one label)`},
		{"user@registry.io", "registry.io/x", true, ""},
		{"registry.io?q", "registry.io/x", true, ""},
		{"[::1]", "[::1]/x", false, `label 1: "[::1]" does not match "[::1]" (brackets without a port after them are parsed as a character class)`},
		{"[::1]:5000", "[::1]:5000/x", true, ""},
		{"k8s.eu*.io", "k8s.us.io/x", false, `label 2: "us" does not match "eu*"`},
		{"*a*b*.io", "xxaxxbxx.io", true, ""},
		{"a*a.io", "a.io", false, `label 1: "a" does not match "a*a"`},
		{"*.io:80/a", "a.b.io/b", false, `host: "*.io" has 2 labels, but "a.b.io" has 3 labels (a * matches one label)`},
		{"*.io:80/a", "b.com/b", false, `label 2: "com" does not match "io"`},
		{"*.io:80/a", "b.io/b", false, "port: the pattern has 80, but the image has none"},
		{"*.io:80/a", "b.io:80/b", false, `path: "/b" does not begin with "/a"`},
		{"*.io:80/a", "b.io:80/a/b", true, ""},
		{"", "", true, ""},
		{"*", "r.io:x/a", false, "invalid repository: the text after the first colon in the host is not a port"},
		{"*", "[::1/a", false, "invalid repository: missing ] after the IPv6 address"},
		{"*", "r.io/%zz", false, "invalid repository: path: percent sign at byte 1 is not followed by two hex digits"},
		{"*", "r io/a", false, "invalid repository: invalid character ' ' in the host"},
	}
	for _, tt := range tests {
		p, err := Parse(tt.pattern)
		if err != nil {
			t.Errorf("Parse(%q): %v", tt.pattern, err)
			continue
		}
		if got := p.Match(tt.image); got != tt.want {
			t.Errorf("%q.Match(%q) = %v, want %v", tt.pattern, tt.image, got, tt.want)
		}
		if reason := p.Why(tt.image); reason != tt.reason {
			t.Errorf("%q.Why(%q) =\n\t%s\nwant\n\t%s", tt.pattern, tt.image, reason, tt.reason)
		}
	}
	if (Pattern{}).Match("") {
		t.Error("the zero Pattern matches the empty string")
	}
	if got, want := (Pattern{}).Why("localhost/a"), `host: "" has 0 labels, but "localhost" has 1 label (a * matches one label)`; got != want {
		t.Errorf("the zero Pattern: got %s, want %s", got, want)
	}
}

func TestPatternMatchAllocates(t *testing.T) {
	p := must.Get(Parse("*.dkr.ecr.*.amazonaws.com"))(t)
	if n := testing.AllocsPerRun(100, func() {
		if !p.Match("123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/app") {
			t.Fatal("no match")
		}
	}); n != 0 {
		t.Errorf("Match allocates %v times, want 0", n)
	}
}
