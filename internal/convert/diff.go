// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"fmt"
	"strings"
)

// Diff is a unified diff of what changes in f, without lines around it: those
// may hold secrets. patch applies it. It is "" if nothing does.
func (f File) Diff() string {
	old, new := linesOf(f.Source), linesOf(f.Data)
	var b strings.Builder
	for i, k := 0, 0; i < len(old) || k < len(new); {
		if i < len(old) && k < len(new) && old[i] == new[k] {
			i, k = i+1, k+1
			continue
		}
		dels, adds := changed(old[i:], new[k:])
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

// changed says how many lines of two texts stand in each other's place, up to
// the nearest that is in both: what is inserted comes whole, and so does a line
// that is not the same. A line further down that reads alike would draw in all
// lines before it.
func changed(old, new []string) (dels, adds int) {
	for distance := range len(old) + len(new) {
		for dels = max(0, distance-len(new)+1); dels <= distance && dels < len(old); dels++ {
			if old[dels] == new[distance-dels] {
				return dels, distance - dels
			}
		}
	}
	return len(old), len(new)
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
