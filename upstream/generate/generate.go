// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package generate creates random inputs, many of which are nearly valid. The parity tests and
// upstream/skew pass them to kubelets and to regcred. The package imports neither of them.
package generate

import (
	"math/rand/v2"
	"slices"
)

// PickElement returns a random element of list.
func PickElement[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// OneIn returns true with probability 1/n.
func OneIn(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

// MutateBytes changes a few bytes of s. It deletes, duplicates and replaces bytes, or inserts bytes
// and words.
func MutateBytes(r *rand.Rand, s string, words []string) string {
	b := []byte(s)
	for range 1 + r.IntN(3) {
		at := r.IntN(len(b) + 1)
		to := min(len(b), at+r.IntN(8))
		switch r.IntN(6) {
		case 0:
			b = slices.Delete(b, at, to)
		case 1:
			b = slices.Insert(b, at, slices.Clone(b[at:to])...)
		case 2:
			b = slices.Insert(b, at, []byte(PickElement(r, words))...)
		case 3:
			b = slices.Insert(b, at, byte(r.IntN(256)))
		case 4:
			if at < len(b) {
				b[at] ^= 0x20 // changes the case of a letter
			}
		case 5:
			from := r.IntN(len(b) + 1)
			b = slices.Insert(b, at, slices.Clone(b[from:min(len(b), from+r.IntN(40))])...)
		}
	}
	return string(b)
}

// PickMostlyFrom picks from good, or with probability 1/n from bad.
func PickMostlyFrom[T any](r *rand.Rand, n int, good, bad []T) T {
	if OneIn(r, n) {
		return PickElement(r, bad)
	}
	return PickElement(r, good)
}
