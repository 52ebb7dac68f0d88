// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package spelling compares misspelled names.
package spelling

// Distance returns the Levenshtein distance of two strings in bytes. It returns a large
// number for strings that are too long to be names.
func Distance(a, b string) int {
	const most = 64
	if len(a) > most || len(b) > most {
		return most
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
