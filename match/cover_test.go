// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package match

import (
	"strings"
	"testing"
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
		{"*", "[::1]", true}, // an image on [::1] matches *, and a class of characters too
		{"[::1]", "[::1]", true},
		{"[::1]", "1", true},
		{"[::1]", "*", false},
		{"*:*", "[::1]", false}, // no pattern
		{"[::1]:5000", "[::1]:5000", true},
		{"*:5000", "[::1]:5000", true},
		{"*.*.*.*", "10.0.0.1", true},
		{"10.*.*.*", "10.0.0.*", true},
	}
	for _, tt := range tests {
		wide, _ := Parse(tt.wide)
		narrow, err := Parse(tt.narrow)
		if err != nil {
			t.Fatal(err)
		}
		if got := wide.Covers(narrow); got != tt.want {
			t.Errorf("%q covers %q: %v, want %v", tt.wide, tt.narrow, got, tt.want)
		}
	}
}

// TestCoversEveryWord holds Covers against images that are tried one by one:
// one pattern covers another if all of these that the other matches it matches
// too. The c is a letter that no pattern has.
func TestCoversEveryWord(t *testing.T) {
	labels := words("abc", 5)
	for _, wide := range words("ab*", 4) {
		for _, narrow := range words("ab*", 3) {
			want := true
			for _, label := range labels {
				if Label(narrow, label) && !Label(wide, label) {
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

// FuzzCovers: no repository that the covered pattern matches and the covering
// does not; and where it is not covered, there is one, which Covers' own
// argument makes: each * in it stands for a text that nobody writes.
func FuzzCovers(f *testing.F) {
	f.Add("*.r.example", "a.r.example", "a.r.example/team/app")
	f.Add("*.r.example:5000/team", "*b.r.example:5000/team-b", "bb.r.example:5000/team-b/app")
	f.Add("*", "[::1]", "1/app")
	f.Add("[fe80::1%25a-z]", "q", "q/app")
	f.Add("[::1]:5000", "*:5000", "[::2]:5000/app")
	f.Add("r.example/", "r.example", "r.example/app")
	f.Add("*a*.example", "*ba*c.example", "ba.ac.example/x")
	f.Fuzz(func(t *testing.T, wide, narrow, repository string) {
		w, err := Parse(wide)
		n, err2 := Parse(narrow)
		if err != nil || err2 != nil {
			return
		}
		for _, image := range append(instances(n), repository) {
			at, err := ParseLocation(image)
			if err != nil || !strings.HasPrefix(at.Path, "/") {
				continue // no repository
			}
			if n.Matches(at) && !w.Matches(at) && w.Covers(n) {
				t.Errorf("%q covers %q, and does not match %q", wide, narrow, image)
			}
		}
		if strings.ContainsAny(n.at.Host, "[\x00") || w.Covers(n) {
			return
		}
		at := Location{strings.ReplaceAll(n.at.Host, "*", "\x00"), n.at.Port, fromSlash(n.at.Path), n.at.labels}
		if !n.Matches(at) || w.Matches(at) {
			t.Errorf("%q does not cover %q, and matches %q as it does", wide, narrow, at.Host)
		}
	})
}

// instances are images that a pattern may match.
func instances(p Pattern) (list []string) {
	port := ""
	if p.at.Port != "" {
		port = ":" + p.at.Port
	}
	for _, host := range []string{"x", "", "a", "1", "-"} {
		for _, rest := range []string{"", "/", "/app", "b/app"} {
			list = append(list, strings.ReplaceAll(p.at.Host, "*", host)+port+p.at.Path+rest)
		}
	}
	return list
}
