// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package spelling compares misspelled names.
package spelling

// Distance returns the number of bytes to insert, delete, replace or swap with their neighbor
// to turn a into b (optimal string alignment). It returns a large number for strings that are
// too long to be names.
func Distance(a, b string) int {
	const most = 64
	if len(a) > most || len(b) > most {
		return most
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			cost := last[j]
			if a[i] != b[j] {
				cost = 1 + min(last[j], last[j+1], row[j])
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				cost = min(cost, 1+before[j-1])
			}
			row[j+1] = cost
		}
	}
	return row[len(b)]
}

// Describe describes the single edit between two names, such as "two letters are swapped". It returns
// "" if there is more than one.
func Describe(wrong, right string) string {
	if Distance(wrong, right) != 1 {
		return ""
	}
	switch {
	case len(wrong) < len(right):
		return "a letter is missing"
	case len(wrong) > len(right):
		return "there is an extra letter"
	}
	different := 0
	for i := range len(wrong) {
		if wrong[i] != right[i] {
			different++
		}
	}
	if different == 2 {
		return "two letters are swapped"
	}
	return "one letter differs"
}
