// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package textedit

import (
	"fmt"
	"sort"
	"strings"
)

// Diff returns a unified diff between two versions of a file, or "" if they are equal. It
// contains no context lines, because they could contain secrets. patch(1) can apply the diff.
func Diff(name string, before, after []byte) string {
	old, new := splitLines(before), splitLines(after)
	places := lineNumbersByText(new)
	var b strings.Builder
	for i, k := 0, 0; i < len(old) || k < len(new); {
		if i < len(old) && k < len(new) && old[i] == new[k] {
			i, k = i+1, k+1
			continue
		}
		dels, adds := hunkSize(old[i:], len(new), places, k)
		if b.Len() == 0 {
			if strings.ContainsAny(name, " \t") {
				name += "\t" // otherwise patch parses the text after the space as a date
			}
			fmt.Fprintf(&b, "--- %s\n+++ %[1]s\n", name)
		}
		fmt.Fprintf(&b, "@@ -%s +%s @@\n", hunkRange(i, dels), hunkRange(k, adds))
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

// lineNumbersByText returns the indexes of each distinct line, in ascending order.
func lineNumbersByText(lines []string) map[string][]int {
	places := make(map[string][]int, len(lines))
	for i, line := range lines {
		places[line] = append(places[line], i)
	}
	return places
}

// hunkSize returns how many old lines must be deleted and how many new lines added before the
// nearest common line. n is the number of lines in the new text, and places contains their
// indexes. The new text continues at line k.
func hunkSize(old []string, n int, places map[string][]int, k int) (dels, adds int) {
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

// hunkRange formats the range of lines in a hunk header.
func hunkRange(from, count int) string {
	if count == 0 {
		return fmt.Sprintf("%d,0", from) // an empty range has the number of the line before it
	}
	return fmt.Sprintf("%d,%d", from+1, count)
}

// splitLines splits a text into lines, including their line endings. It adds the mark that
// diffs use for a last line without a line ending.
func splitLines(text []byte) []string {
	list := strings.SplitAfter(string(text), "\n")
	switch last := len(list) - 1; {
	case list[last] == "":
		return list[:last]
	default:
		list[last] += "\n\\ No newline at end of file\n"
		return list
	}
}
