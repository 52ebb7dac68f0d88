// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package generate makes inputs at random, of which many are nearly right: what
// the parity tests and upstream/skew send to kubelets and to regcred alike. It
// knows neither of the two.
package generate

import (
	"math/rand/v2"
	"slices"
)

// Pick returns one of a list.
func Pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// One reports true once in n times.
func One(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

// Mutate changes a few bytes of s: it deletes, doubles, swaps and replaces.
// words are inserted beside single bytes, so that syntax is met.
func Mutate(r *rand.Rand, s string, words []string) string {
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
			b = slices.Insert(b, at, []byte(Pick(r, words))...)
		case 3:
			b = slices.Insert(b, at, byte(r.IntN(256)))
		case 4:
			if at < len(b) {
				b[at] ^= 0x20 // upper case and lower case
			}
		case 5:
			from := r.IntN(len(b) + 1)
			b = slices.Insert(b, at, slices.Clone(b[from:min(len(b), from+r.IntN(40))])...)
		}
	}
	return string(b)
}

// Mostly picks from good, and once in n times from bad.
func Mostly[T any](r *rand.Rand, n int, good, bad []T) T {
	if One(r, n) {
		return Pick(r, bad)
	}
	return Pick(r, good)
}
