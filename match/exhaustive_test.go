// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package match

import (
	"fmt"
	"path"
	"strings"
	"testing"
)

// TestLocationEveryByte puts every byte, and every escape of one, at every
// place of a location of each form.
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

// words are all of at most n characters out of an alphabet.
func words(alphabet string, n int) []string {
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

// naiveMatches is naiveMatch for what is taken apart already.
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

// TestMatchEveryWord holds patterns and the index against the naive rule, over
// all short ones that are made of what has a meaning.
func TestMatchEveryWord(t *testing.T) {
	patterns, images := words("ab.*:1/", 3), words("ab.1/", 4)
	patterns = append(patterns, "a*b", "*a*b", "a**b", "a*b*a", "*a.b", "a.*b", "a*.b*", "[::1]", "[::1].a", "*.[::a]")
	lists, parsed := make([][]string, len(patterns)), make([]*Pattern, len(patterns))
	for i, s := range patterns {
		lists[i] = []string{s}
		if p, err := Parse(s); err == nil {
			parsed[i] = &p
		}
	}
	index, tried := NewIndex(lists), 0
	for _, image := range images {
		at, err := ParseLocation(image)
		if err != nil {
			continue
		}
		tried++
		hits := map[int]bool{}
		for _, hit := range index.Match(at, nil) {
			hits[hit.List] = true
		}
		for i, p := range parsed {
			want := p != nil && naiveMatches(p.at, at)
			if p != nil && p.Matches(at) != want {
				t.Errorf("%q.Matches(%q) = %v, want %v", patterns[i], image, !want, want)
			}
			if hits[i] != want {
				t.Errorf("the index has %q for %q: %v, want %v", patterns[i], image, hits[i], want)
			}
		}
	}
	if tried < 100 {
		t.Errorf("only %d images of %d are valid", tried, len(images))
	}
}

// TestLabelEveryWord: as path.Match, where nothing is a class.
func TestLabelEveryWord(t *testing.T) {
	labels := words("ab", 5)
	for _, pattern := range words("ab*", 5) {
		for _, label := range labels {
			if got, want := Label(pattern, label), naiveLabel(pattern, label); got != want {
				t.Fatalf("Label(%q, %q) = %v, want %v", pattern, label, got, want)
			}
		}
	}
}

// TestLabelClass: what stands in brackets is a class of characters to a
// kubelet, even where it was meant as an address.
func TestLabelClass(t *testing.T) {
	for _, tt := range []struct {
		pattern, label string
		want           bool
	}{
		{"[::1]", "1", true}, {"[::1]", ":", true}, {"[::1]", "[::1]", false}, {"[::1]", "2", false}, {"[", "[", false},
	} {
		if got := Label(tt.pattern, tt.label); got != tt.want {
			t.Errorf("Label(%q, %q) = %v, want %v", tt.pattern, tt.label, got, tt.want)
		}
	}
}

func TestPatternLocation(t *testing.T) {
	p, err := Parse("*.io:80/x")
	if want := (Location{"*.io", "80", "/x", 2}); err != nil || p.Location() != want {
		t.Errorf("Location() = %+v, %v, want %+v", p.Location(), err, want)
	}
}

func TestShorten(t *testing.T) {
	most := strings.Repeat("x", 300)
	if got := shorten(most); got != most {
		t.Errorf("300 bytes became %d", len(got))
	}
	if got := shorten(most + "y"); got != most+"…" {
		t.Errorf("301 bytes became %q", got)
	}
}

// TestEscapeError: the error names the whole escape.
func TestEscapeError(t *testing.T) {
	_, err := ParseLocation("a%41b")
	if want := `invalid escape "%41" in the host`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
