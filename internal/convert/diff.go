// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"fmt"
	"sort"
	"strings"
)

// Diff is a unified diff of what changes in f, without lines around it: those
// may hold secrets. patch applies it. It is "" if nothing does.
func (f File) Diff() string {
	old, new := linesOf(f.Source), linesOf(f.Data)
	places := placesOf(new)
	var b strings.Builder
	for i, k := 0, 0; i < len(old) || k < len(new); {
		if i < len(old) && k < len(new) && old[i] == new[k] {
			i, k = i+1, k+1
			continue
		}
		dels, adds := changed(old[i:], len(new), places, k)
		if b.Len() == 0 {
			name := f.Name
			if strings.ContainsAny(name, " \t") {
				name += "\t" // or patch takes what follows the blank for a date
			}
			fmt.Fprintf(&b, "--- %s\n+++ %[1]s\n", name)
		}
		fmt.Fprintf(&b, "@@ -%s +%s @@\n", span(i, dels), span(k, adds))
		for _, line := range old[i:][:dels] {
			b.WriteString("-" + line)
		}
		for _, line := range new[k:][:adds] {
			b.WriteString("+" + line)
		}
		i, k = i+dels, k+adds
	}
	return b.String()
}

// placesOf returns where each line stands, in ascending order.
func placesOf(lines []string) map[string][]int {
	places := make(map[string][]int, len(lines))
	for i, line := range lines {
		places[line] = append(places[line], i)
	}
	return places
}

// changed says how many lines of two texts stand in each other's place, up to
// the nearest that is in both: what is inserted comes whole, and so does a line
// that is not the same. A line further down that reads alike would draw in all
// lines before it. The new text has n lines, at the places given, and counts
// from line k on. What it looks at is no more than what is then left behind.
func changed(old []string, n int, places map[string][]int, k int) (dels, adds int) {
	nearest := len(old) + n - k
	dels, adds = len(old), n-k
	for i := 0; i < len(old) && i < nearest; i++ {
		at := places[old[i]]
		first := sort.SearchInts(at, k)
		if first < len(at) && i+at[first]-k < nearest {
			dels, adds = i, at[first]-k
			nearest = dels + adds
		}
	}
	return dels, adds
}

// span is a range of lines in the head of a hunk.
func span(from, count int) string {
	if count == 0 {
		return fmt.Sprintf("%d,0", from) // the line behind which it is
	}
	return fmt.Sprintf("%d,%d", from+1, count)
}

// linesOf keeps the ends of lines; the last may have none, as diffs mark it.
func linesOf(text []byte) []string {
	list := strings.SplitAfter(string(text), "\n")
	switch last := len(list) - 1; {
	case list[last] == "":
		return list[:last]
	default:
		list[last] += "\n\\ No newline at end of file\n"
		return list
	}
}
