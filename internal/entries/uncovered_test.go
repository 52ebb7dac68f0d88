// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package entries

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/match"
)

func TestUncovered(t *testing.T) {
	x := newTokenAttributes("x", "a/1", "b/2")
	have := []Entry{newEntry(1, nil, "*.a.example", "b.example/team"), newEntry(2, x, "*.b.example")}
	tests := map[string]struct {
		want  []Entry
		texts []string
	}{
		"nothing":                  {nil, nil},
		"the same":                 {have, nil},
		"less":                     {[]Entry{newEntry(1, nil, "x.a.example:", "*b.a.example/x", "b.example/team-b")}, nil},
		"order of annotation keys": {[]Entry{newEntry(2, newTokenAttributes("x", "b/2", "a/1"), "x.b.example")}, nil},
		"more": {
			[]Entry{newEntry(1, nil, "a.example", "*.a.example", "x.a.example:5000"), newEntry(2, x, "*.b.example", "*.a.example")},
			[]string{`"a.example", "x.a.example:5000"`, `"*.a.example" with tokenAttributes for audience "x"`},
		},
		"a shorter path":   {[]Entry{newEntry(1, nil, "b.example")}, []string{`"b.example"`}},
		"another audience": {[]Entry{newEntry(3, newTokenAttributes("y"), "*.a.example")}, []string{`"*.a.example" with new tokenAttributes for audience "y"`}},
		"another name":     {[]Entry{newEntry(3, nil, "*.a.example")}, []string{`"*.a.example"`}},
		"a name of others": {[]Entry{newEntry(1, x, "x.b.example")}, []string{`"x.b.example" with new tokenAttributes for audience "x"`}},
		"astray":           {[]Entry{newEntry(1, nil, "u:secret@b.example")}, []string{`"…@b.example"`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, g := range FindGaps(have, tt.want) {
				got = append(got, g.String())
			}
			if diff := cmp.Diff(tt.texts, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzUncovered verifies that FindGaps lists a pattern for every image that the wanted entry
// matches and the kubelet's entry does not. It also checks removeCovered.
func FuzzUncovered(f *testing.F) {
	f.Add("*.a.example b.example/team", "x.a.example:5000 *b.a.example", "xb.a.example/app")
	f.Add("* *.* *.*.*", "[::1] [::1]:5000 localhost 10.0.0.1", "[::1]:5000/app")
	f.Add("[::1]:5000 *:5000", "[::1]:5000/team", "[::1]:5000/team/app")
	f.Add("a*b*c.example", "ab*bc.example", "abc.example/app")
	f.Fuzz(func(t *testing.T, have, want, image string) {
		had, wanted := newEntry(1, nil, strings.Fields(have)...), newEntry(1, nil, strings.Fields(want)...)
		var left []string
		for _, g := range FindGaps([]Entry{had}, []Entry{wanted}) {
			left = append(left, g.Patterns...)
		}
		for _, repository := range append(sampleImages(wanted.MatchImages), image) {
			if _, err := match.Repository(repository); err != nil {
				continue
			}
			if matchesAny(wanted.MatchImages, repository) && !matchesAny(had.MatchImages, repository) && !matchesAny(left, repository) {
				t.Errorf("%q is not listed, and all is covered but %q", repository, left)
			}
		}
		if kept := removeCovered(wanted.MatchImages); len(uncoveredPatterns(kept, wanted.MatchImages)) > 0 || len(removeCovered(kept)) != len(kept) {
			t.Errorf("of %q %q were kept", wanted.MatchImages, kept)
		}
	})
}

// sampleImages returns some images that patterns may match.
func sampleImages(patterns []string) (list []string) {
	for _, p := range patterns {
		for _, text := range []string{"x", "", "a", "1"} {
			for _, rest := range []string{"", "/app", "app", "/a/b"} {
				list = append(list, strings.ReplaceAll(p, "*", text)+rest)
			}
		}
	}
	return list
}

func matchesAny(patterns []string, repository string) bool {
	for _, s := range patterns {
		if p, err := match.Parse(s); err == nil && p.Match(repository) {
			return true
		}
	}
	return false
}

func BenchmarkDerive(b *testing.B) {
	for _, n := range []int{20, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var list []string
			for i := range n {
				list = append(list, fmt.Sprintf("*.r%d.example/team", i))
			}
			for b.Loop() {
				removeCovered(list)
			}
		})
	}
}
