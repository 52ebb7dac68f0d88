// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package spelling compares misspelled names.
package spelling

import (
	"slices"
	"strings"
)

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

// SimilarKey returns the one of candidates that a Kubernetes annotation or label key probably means, or
// "". The parts before the slash must be the same or differ in one or two bytes. The parts after it must
// be equal except for case, hyphens and underscores, differ in one or two bytes, or begin with each other.
func SimilarKey(key string, candidates []string) string {
	prefix, name := cutKey(key)
	best, nearest := "", 3
	for _, c := range candidates {
		p, n := cutKey(c)
		d := Distance(prefix, p)
		switch long := min(len(name), len(n)) > 3; {
		case c == key, d > 2, d > 0 && (prefix == "" || p == ""):
			continue
		case name == n:
		case long && (strings.HasPrefix(name, n) || strings.HasPrefix(n, name)):
			d++
		case long && Distance(name, n) <= 2:
			d += Distance(name, n)
		default:
			continue
		}
		if d < nearest || d == nearest && c < best {
			best, nearest = c, d
		}
	}
	return best
}

// cutKey returns the prefix of a key and its name in lower case, without hyphens and underscores.
func cutKey(key string) (prefix, name string) {
	i := strings.LastIndexByte(key, '/')
	words := strings.FieldsFunc(strings.ToLower(key[i+1:]), func(r rune) bool { return slices.Contains([]rune("-_."), r) })
	return strings.ToLower(key[:max(i, 0)]), strings.Join(words, "")
}
