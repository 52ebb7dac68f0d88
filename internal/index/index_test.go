// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package index

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/location"
	"github.com/regcred/regcred/internal/must"
)

// naiveHits tries every pattern of every list, as the kubelet does.
func naiveHits(lists [][]string, at location.Location) []Hit {
	var hits []Hit
	for i, list := range lists {
		for j, s := range list {
			if p, err := location.ParsePattern(s); err == nil && p.Match(at) {
				hits = append(hits, Hit{i, j})
				break
			}
		}
	}
	return hits
}

// TestIndexEveryWord compares the index with naiveHits for all short patterns and images.
func TestIndexEveryWord(t *testing.T) {
	patterns, images := allWords("ab.*:1/", 3), allWords("ab.1/", 4)
	patterns = append(patterns, "a*b", "*a*b", "a**b", "a*b*a", "*a.b", "a.*b", "a*.b*", "[::1]", "[::1].a", "*.[::a]")
	lists := make([][]string, len(patterns))
	for i, s := range patterns {
		lists[i] = []string{s}
	}
	ix, tried := New(lists), 0
	for _, image := range images {
		at, err := location.Parse(image)
		if err != nil {
			continue
		}
		tried++
		if diff := cmp.Diff(naiveHits(lists, at), ix.Match(at, nil)); diff != "" {
			t.Errorf("image %q (-want +got):\n%s", image, diff)
		}
	}
	if tried < 100 {
		t.Errorf("only %d images of %d are valid", tried, len(images))
	}
}

// allWords returns all strings of at most n characters from an alphabet.
func allWords(alphabet string, n int) []string {
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

func TestIndexAgreesWithNaiveMatch(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	matched := 0
	for range 300 {
		lists := make([][]string, 1+rng.IntN(6))
		for i := range lists {
			for range 1 + rng.IntN(8) {
				lists[i] = append(lists[i], randomURL(rng, true))
			}
		}
		ix := New(lists)
		for range 50 {
			image := randomURL(rng, false)
			at := must.Get(location.Parse(image))(t)
			got, want := ix.Match(at, nil), naiveHits(lists, at)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("image %q, lists %v (-want +got):\n%s", image, lists, diff)
			}
			matched += len(got)
		}
	}
	if matched < 1000 {
		t.Errorf("only %d matches: the generator no longer makes near misses", matched)
	}
}

// randomURL returns a random pattern or image. It chooses from few labels, so that patterns
// often match.
func randomURL(rng *rand.Rand, glob bool) string {
	pick := func(words ...string) string { return words[rng.IntN(len(words))] }
	labels := make([]string, 1+rng.IntN(3))
	for i := range labels {
		labels[i] = pick("a", "ab", "b", "io", "abc")
		if glob && rng.IntN(3) == 0 {
			labels[i] = pick("*", "a*", "*b", "a*c", "**", "ab*", "*a*")
		}
	}
	return strings.Join(labels, ".") + pick("", "", "", ":80", ":") + pick("", "", "/", "/a", "/a/b", "/ab", "/%61")
}

func TestIndexMatchAllocates(t *testing.T) {
	ix := New([][]string{{"*.registry.example", "registry.example"}, {"a.*.example/x"}})
	at := must.Get(location.Parse("a.registry.example/x/y"))(t)
	var buf [8]Hit
	if n := testing.AllocsPerRun(100, func() {
		if len(ix.Match(at, buf[:0])) != 2 {
			t.Fatal("want 2 hits")
		}
	}); n != 0 {
		t.Errorf("match allocates %v times, want 0", n)
	}
}

func ExampleIndex() {
	providers := [][]string{
		{"*.example", "registry.example/team"},
		{"docker.io"},
		{"registry.example"},
	}
	ix := New(providers)
	at, err := location.Parse("registry.example/team/app")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, hit := range ix.Match(at, nil) {
		fmt.Println(hit.List, providers[hit.List][hit.Pattern])
	}
	// Output:
	// 0 *.example
	// 2 registry.example
}
