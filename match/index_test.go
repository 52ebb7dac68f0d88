// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// naiveHits asks every pattern of every provider, as the kubelet does.
func naiveHits(providers []Provider, image string) []hit {
	var hits []hit
	for i, p := range providers {
		for j, s := range p.MatchImages {
			if naiveMatch(s, image) {
				hits = append(hits, hit{i, j})
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
		providers := make([]Provider, 1+rng.IntN(6))
		for i := range providers {
			for range 1 + rng.IntN(8) {
				providers[i].MatchImages = append(providers[i].MatchImages, randomURL(rng, true))
			}
		}
		ix := newIndex(providers)
		for range 50 {
			image := randomURL(rng, false)
			at, err := parseLocation(image)
			if err != nil {
				t.Fatal(err)
			}
			got, want := ix.match(at, nil), naiveHits(providers, image)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(hit{})); diff != "" {
				t.Fatalf("image %q, providers %v (-want +got):\n%s", image, providers, diff)
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
	ix := newIndex([]Provider{{MatchImages: []string{"*.registry.example", "registry.example"}}, {MatchImages: []string{"a.*.example/x"}}})
	at, err := parseLocation("a.registry.example/x/y")
	if err != nil {
		t.Fatal(err)
	}
	var buf [8]hit
	if n := testing.AllocsPerRun(100, func() {
		if len(ix.match(at, buf[:0])) != 2 {
			t.Fatal("want 2 hits")
		}
	}); n != 0 {
		t.Errorf("match allocates %v times, want 0", n)
	}
}
