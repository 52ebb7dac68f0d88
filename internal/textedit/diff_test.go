// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package textedit

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// nearestNaive returns the same result as hunkSize by comparing all pairs of lines.
func nearestNaive(old, new []string) (dels, adds int) {
	for distance := range len(old) + len(new) {
		for dels = max(0, distance-len(new)+1); dels <= distance && dels < len(old); dels++ {
			if old[dels] == new[distance-dels] {
				return dels, distance - dels
			}
		}
	}
	return len(old), len(new)
}

func TestChangedIsTheNearest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := func() (lines []string) {
		for range r.IntN(12) {
			lines = append(lines, fmt.Sprint(r.IntN(15)))
		}
		return lines
	}
	for range 20_000 {
		old, new := text(), text()
		k := r.IntN(len(new) + 1)
		dels, adds := hunkSize(old, len(new), lineNumbersByText(new), k)
		if wantDels, wantAdds := nearestNaive(old, new[k:]); dels != wantDels || adds != wantAdds {
			t.Fatalf("%q, %q from %d: got %d and %d, want %d and %d", old, new, k, dels, adds, wantDels, wantAdds)
		}
	}
}

// BenchmarkDiff measures Diff for texts that have no common line.
func BenchmarkDiff(b *testing.B) {
	for _, n := range []int{10_000, 20_000} {
		old, new := []byte(strings.Repeat("a\n", n)), []byte(strings.Repeat("b\n", n))
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				Diff("c", old, new)
			}
		})
	}
}
