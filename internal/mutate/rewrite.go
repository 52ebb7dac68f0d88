// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A mutant is a site with the number that turns it on.
type mutant struct {
	*site
	number int
}

// rewrite is a file's text with mutants in it, each behind the switch. No
// line moves.
func rewrite(text string, nameEnd int, imports map[string]string, mutants []mutant) string {
	var edits []edit
	seen := map[edit]bool{}
	for _, m := range mutants {
		for _, e := range m.edits {
			e.open = strings.ReplaceAll(e.open, number, strconv.Itoa(m.number))
			e.close = strings.ReplaceAll(e.close, number, strconv.Itoa(m.number))
			edits = append(edits, e)
		}
	}
	for _, m := range mutants {
		for _, e := range m.shared { // innermost
			if !seen[e] {
				seen[e] = true
				edits = append(edits, e)
			}
		}
	}
	edits = append(edits, edit{start: nameEnd, end: nameEnd, open: importLine(imports, edits)})
	return apply(text, edits)
}

// importLine names the packages whose types the edits write out.
func importLine(imports map[string]string, edits []edit) string {
	var b strings.Builder
	for path, name := range imports {
		if slices.ContainsFunc(edits, func(e edit) bool { return strings.Contains(e.open, name+".") }) {
			fmt.Fprintf(&b, "; import %s %q", name, path)
		}
	}
	return b.String()
}

// apply makes the edits, which stand in each other or apart; of those about
// the same piece the first is the outermost.
func apply(text string, edits []edit) string {
	slices.SortStableFunc(edits, func(a, b edit) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end))
	})
	var out strings.Builder
	var open []edit
	at := 0
	closeUntil := func(offset int) {
		for len(open) > 0 && open[len(open)-1].end <= offset {
			last := open[len(open)-1]
			open = open[:len(open)-1]
			out.WriteString(text[at:last.end])
			out.WriteString(last.close)
			at = last.end
		}
	}
	for _, e := range edits {
		closeUntil(e.start)
		out.WriteString(text[at:e.start])
		out.WriteString(e.open)
		at = e.start
		if e.replace {
			at = e.end
		} else {
			open = append(open, e)
		}
	}
	closeUntil(len(text))
	out.WriteString(text[at:])
	return out.String()
}
