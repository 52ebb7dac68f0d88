// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package entries

import "slices"

// span is a part of a text: from an offset up to another.
type span struct{ from, to int }

// insertion is a text, and where it goes.
type insertion struct {
	at   int
	text string
}

// list is the list of providers, as it stands in the text of a file.
type list interface {
	// count is how many providers it has.
	count() int
	// item is where a provider stands, with nothing of another.
	item(i int) span
	// cut is what has to go so that a provider does, and nothing of another.
	cut(i int) span
	// places are where ours may be put so that they stand behind all others, the
	// best first. What [list.cut] takes out again is just what came in.
	places(ours []Entry) []insertion
}

func without(text []byte, s span) []byte { return slices.Concat(text[:s.from], text[s.to:]) }

func with(text []byte, in insertion) []byte {
	return slices.Concat(text[:in.at], []byte(in.text), text[in.at:])
}
