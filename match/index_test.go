// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package match

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// naiveHits asks every pattern of every list, as the kubelet does.
func naiveHits(lists [][]string, image string) []Hit {
	var hits []Hit
	for i, list := range lists {
		for j, s := range list {
			if naiveMatch(s, image) {
				hits = append(hits, Hit{i, j})
				break
			}
		}
	}
	return hits
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
		ix := NewIndex(lists)
		for range 50 {
			image := randomURL(rng, false)
			at, err := ParseLocation(image)
			if err != nil {
				t.Fatal(err)
			}
			got, want := ix.Match(at, nil), naiveHits(lists, image)
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

// randomURL draws from so few words that patterns and images often meet.
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
	ix := NewIndex([][]string{{"*.registry.example", "registry.example"}, {"a.*.example/x"}})
	at, err := ParseLocation("a.registry.example/x/y")
	if err != nil {
		t.Fatal(err)
	}
	var buf [8]Hit
	if n := testing.AllocsPerRun(100, func() {
		if len(ix.Match(at, buf[:0])) != 2 {
			t.Fatal("want 2 hits")
		}
	}); n != 0 {
		t.Errorf("match allocates %v times, want 0", n)
	}
}
