// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package location

import (
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

func TestCovers(t *testing.T) {
	tests := []struct {
		wide, narrow string
		want         bool
	}{
		{"r.example", "r.example", true},
		{"*.example", "r.example", true},
		{"*.example", "*.example", true},
		{"r.example", "*.example", false},
		{"*.example", "a.r.example", false},
		{"*.*.example", "*.r.example", true},
		{"*r.example", "a*r.example", true},
		{"*r.example", "*a.example", false},
		{"*a*.example", "*ba*c.example", true},
		{"a*a.example", "a.example", false},
		{"**.example", "*.example", true},
		{"*.example", "**.example", true},
		{"R.example", "r.example", false},
		{"r.example", "r.example:5000", false},
		{"r.example:5000", "r.example", false},
		{"r.example:5000", "r.example:5000/team", true},
		{"r.example:", "r.example", true},
		{"r.example", "r.example/team", true},
		{"r.example/", "r.example", true},
		{"r.example/team", "r.example/team-b", true},
		{"r.example/team", "r.example", false},
		{"r.example/team/", "r.example/team", false},
		{"r.example/*", "r.example/team", false},
		{"r.example/%61", "r.example/a", true},
		{"u@r.example?q", "r.example", true},
		{"*", "localhost", true},
		{"*", "[::1]", true}, // an image on [::1] matches both: * and the character class
		{"[::1]", "[::1]", true},
		{"[::1]", "1", true},
		{"[::1]", "*", false},
		{"*:*", "[::1]", false}, // "*:*" is not a valid pattern
		{"[::1]:5000", "[::1]:5000", true},
		{"*:5000", "[::1]:5000", true},
		{"*.*.*.*", "10.0.0.1", true},
		{"10.*.*.*", "10.0.0.*", true},
	}
	for _, tt := range tests {
		wide, _ := ParsePattern(tt.wide)
		narrow := must.Get(ParsePattern(tt.narrow))(t)
		if got := wide.Covers(narrow); got != tt.want {
			t.Errorf("%q covers %q: %v, want %v", tt.wide, tt.narrow, got, tt.want)
		}
	}
}

// TestCoversEveryWord compares labelCovers with an exhaustive search. One glob covers another if it
// matches every label that the other matches. No glob contains the letter c, which stands for all
// other bytes.
func TestCoversEveryWord(t *testing.T) {
	labels := allStrings("abc", 5)
	for _, wide := range allStrings("ab*", 4) {
		for _, narrow := range allStrings("ab*", 3) {
			want := true
			for _, label := range labels {
				if MatchLabel(narrow, label) && !MatchLabel(wide, label) {
					want = false
					break
				}
			}
			if got := labelCovers(wide, narrow); got != want {
				t.Errorf("%q covers %q: %v, want %v", wide, narrow, got, want)
			}
		}
	}
}

// FuzzCovers checks that a pattern matches every repository that a covered pattern matches. If it
// does not cover the other pattern, there must be a repository that only the other pattern matches.
// To find this repository, each * is replaced with a byte that no pattern contains.
func FuzzCovers(f *testing.F) {
	f.Add("*.r.example", "a.r.example", "a.r.example/team/app")
	f.Add("*.r.example:5000/team", "*b.r.example:5000/team-b", "bb.r.example:5000/team-b/app")
	f.Add("*", "[::1]", "1/app")
	f.Add("[fe80::1%25a-z]", "q", "q/app")
	f.Add("[::1]:5000", "*:5000", "[::2]:5000/app")
	f.Add("r.example/", "r.example", "r.example/app")
	f.Add("*a*.example", "*ba*c.example", "ba.ac.example/x")
	f.Fuzz(func(t *testing.T, wide, narrow, repository string) {
		w, err := ParsePattern(wide)
		n, err2 := ParsePattern(narrow)
		if err != nil || err2 != nil {
			return
		}
		for _, image := range append(sampleImages(n), repository) {
			at, err := Parse(image)
			if err != nil || !strings.HasPrefix(at.Path, "/") {
				continue // not a repository
			}
			if n.Match(at) && !w.Match(at) && w.Covers(n) {
				t.Errorf("%q covers %q, and does not match %q", wide, narrow, image)
			}
		}
		if strings.ContainsAny(n.Host, "[\x00") || w.Covers(n) {
			return
		}
		at := Location{strings.ReplaceAll(n.Host, "*", "\x00"), n.Port, pathOrRoot(n.Path), n.labels}
		if !n.Match(at) || w.Match(at) {
			t.Errorf("%q does not cover %q, and matches %q as it does", wide, narrow, at.Host)
		}
	})
}

// sampleImages returns some images that a pattern may match.
func sampleImages(p Pattern) (list []string) {
	port := ""
	if p.Port != "" {
		port = ":" + p.Port
	}
	for _, host := range []string{"x", "", "a", "1", "-"} {
		for _, rest := range []string{"", "/", "/app", "b/app"} {
			list = append(list, strings.ReplaceAll(p.Host, "*", host)+port+p.Path+rest)
		}
	}
	return list
}
