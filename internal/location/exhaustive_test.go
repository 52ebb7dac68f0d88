// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package location

import (
	"fmt"
	"path"
	"strings"
	"testing"
)

// TestLocationEveryByte inserts every byte, plain and escaped, at every position of several
// locations. It compares the results with net/url.
func TestLocationEveryByte(t *testing.T) {
	forms := []string{
		"a.b:80/c", "u:p@a.b/c?q#f", "é%ff/%41", "[::1]/c", "[::1]:80", "[fe80::1%25e]:80/c", "[fe80::1%25e%20]", "#%4f?",
	}
	for _, form := range forms {
		for at := range len(form) + 1 {
			for c := range 256 {
				for _, piece := range []string{string([]byte{byte(c)}), fmt.Sprintf("%%%02x", c), fmt.Sprintf("%%%02X", c)} {
					checkLocation(t, form[:at]+piece+form[at:])
					if at < len(form) {
						checkLocation(t, form[:at]+piece+form[at+1:])
					}
				}
			}
			checkLocation(t, form[:at])
			checkLocation(t, form[at:])
		}
	}
}

// allStrings returns all strings of at most n characters of an alphabet.
func allStrings(alphabet string, n int) []string {
	all := []string{""}
	for begin := 0; n > 0; n-- {
		longest := all[begin:]
		begin = len(all)
		for _, word := range longest {
			for _, c := range alphabet {
				all = append(all, word+string(c))
			}
		}
	}
	return all
}

func naiveLabel(pattern, label string) bool {
	ok, err := path.Match(pattern, label)
	return ok && err == nil
}

// naiveMatches is like naiveMatch, but takes parsed values.
func naiveMatches(p, at Location) bool {
	wants, labels := strings.Split(p.Host, "."), strings.Split(at.Host, ".")
	if len(wants) != len(labels) || p.Port != at.Port || !strings.HasPrefix(at.Path, p.Path) {
		return false
	}
	for i := range wants {
		if !naiveLabel(wants[i], labels[i]) {
			return false
		}
	}
	return true
}

// TestMatchEveryWord compares Match with a naive implementation for all short patterns
// and images made of special characters.
func TestMatchEveryWord(t *testing.T) {
	patterns, images := allStrings("ab.*:1/", 3), allStrings("ab.1/", 4)
	patterns = append(patterns, "a*b", "*a*b", "a**b", "a*b*a", "*a.b", "a.*b", "a*.b*", "[::1]", "[::1].a", "*.[::a]")
	tried := 0
	for _, image := range images {
		at, err := Parse(image)
		if err != nil {
			continue
		}
		tried++
		for _, s := range patterns {
			p, err := ParsePattern(s)
			if err != nil {
				continue
			}
			if want := naiveMatches(p.Location, at); p.Match(at) != want {
				t.Errorf("%q.Match(%q) = %v, want %v", s, image, !want, want)
			}
		}
	}
	if tried < 100 {
		t.Errorf("only %d images of %d are valid", tried, len(images))
	}
}

// TestLabelEveryWord compares MatchLabel with path.Match for all short patterns without character
// classes.
func TestLabelEveryWord(t *testing.T) {
	labels := allStrings("ab", 5)
	for _, pattern := range allStrings("ab*", 5) {
		for _, label := range labels {
			if got, want := MatchLabel(pattern, label), naiveLabel(pattern, label); got != want {
				t.Fatalf("MatchLabel(%q, %q) = %v, want %v", pattern, label, got, want)
			}
		}
	}
}

// TestLabelClass checks that MatchLabel treats an IPv6 address in brackets as a character class, as
// the kubelet does.
func TestLabelClass(t *testing.T) {
	for _, tt := range []struct {
		pattern, label string
		want           bool
	}{
		{"[::1]", "1", true}, {"[::1]", ":", true}, {"[::1]", "[::1]", false}, {"[::1]", "2", false}, {"[", "[", false},
	} {
		if got := MatchLabel(tt.pattern, tt.label); got != tt.want {
			t.Errorf("MatchLabel(%q, %q) = %v, want %v", tt.pattern, tt.label, got, tt.want)
		}
	}
}

func TestParsePattern(t *testing.T) {
	p, err := ParsePattern("*.io:80/x")
	if want := (Location{"*.io", "80", "/x", 2}); err != nil || p.Location != want {
		t.Errorf("Location = %+v, %v, want %+v", p.Location, err, want)
	}
}

// TestEscapeError checks that the error for an invalid escape shows the complete escape.
func TestEscapeError(t *testing.T) {
	_, err := Parse("a%41b")
	if want := `invalid escape "%41" in the host`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
