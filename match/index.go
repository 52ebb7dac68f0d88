// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package match

import (
	"slices"
	"sort"
	"strings"
)

// Index finds which of many lists of patterns, one for each provider, match a
// repository, in time that depends on the repository and on what matches
// rather than on the number of patterns; only labels whose globs begin with the
// same text are tried one by one. [NewIndex] builds it; it is read-only
// afterwards, and safe for concurrent use. The zero value matches nothing.
//
// Patterns stand in a trie by port and then by labels from the right, where
// they have the fewest globs. A label with a glob is filed under the literal
// text before it, and the patterns of one host under their paths, so that
// both are found by looking up the prefixes of what the image has.
type Index struct {
	ports map[string]*trieNode
}

// Hit is a pattern that matches: which list, and which of its patterns, both
// counted from 0 as they were given to [NewIndex].
type Hit struct {
	List, Pattern int
}

type trieNode struct {
	literal map[string]*trieNode // by whole label
	globs   prefixes[globLabel]  // by the text before the first * or [
	paths   prefixes[Hit]        // patterns that end here, by path
}

type globLabel struct {
	pattern string
	next    *trieNode
}

// prefixes finds the values whose key is a prefix of a text.
type prefixes[T any] struct {
	byKey   map[string][]T
	lengths []int // of the keys, ascending, without duplicates
}

func (p *prefixes[T]) add(key string, v T) {
	if p.byKey == nil {
		p.byKey = map[string][]T{}
	}
	p.byKey[key] = append(p.byKey[key], v)
	if i := sort.SearchInts(p.lengths, len(key)); i == len(p.lengths) || p.lengths[i] != len(key) {
		p.lengths = slices.Insert(p.lengths, i, len(key))
	}
}

// NewIndex compiles lists of patterns, which it does not keep. Patterns that
// do not parse match nothing, as in the kubelet.
func NewIndex(lists [][]string) *Index {
	ix := &Index{ports: map[string]*trieNode{}}
	globs := map[globKey]*trieNode{}
	for i, list := range lists {
		for j, s := range list {
			if pat, err := Parse(s); err == nil {
				ix.add(pat, Hit{i, j}, globs)
			}
		}
	}
	return ix
}

// globKey names a child with a glob while the index is built.
type globKey struct {
	parent *trieNode
	label  string
}

func (ix *Index) add(p Pattern, h Hit, globs map[globKey]*trieNode) {
	n := ix.ports[p.at.Port]
	if n == nil {
		n = &trieNode{}
		ix.ports[p.at.Port] = n
	}
	for rest, more := p.at.Host, true; more; {
		var label string
		rest, label, more = cutLast(rest)
		n = n.child(label, globs)
	}
	n.paths.add(p.at.Path, h)
}

func (n *trieNode) child(label string, globs map[globKey]*trieNode) *trieNode {
	meta := strings.IndexAny(label, "*[")
	if meta < 0 {
		next := n.literal[label]
		if next == nil {
			if n.literal == nil {
				n.literal = map[string]*trieNode{}
			}
			next = &trieNode{}
			n.literal[label] = next
		}
		return next
	}
	key := globKey{n, label}
	next := globs[key]
	if next == nil {
		next = &trieNode{}
		globs[key] = next
		n.globs.add(label[:meta], globLabel{label, next})
	}
	return next
}

// Match returns one hit for each list that matches, in their order, each with
// the first of its patterns that does. It stores them in hits, which is empty
// (nil, or buf[:0]), and allocates only where that has no room.
func (ix *Index) Match(at Location, hits []Hit) []Hit {
	if root := ix.ports[at.Port]; root != nil {
		hits = root.match(at.Host, true, at.Path, hits)
	}
	if len(hits) < 2 {
		return hits
	}
	slices.SortFunc(hits, func(a, b Hit) int {
		if a.List != b.List {
			return a.List - b.List
		}
		return a.Pattern - b.Pattern
	})
	return slices.CompactFunc(hits, func(a, b Hit) bool { return a.List == b.List })
}

func (n *trieNode) match(host string, more bool, path string, hits []Hit) []Hit {
	if !more {
		for _, l := range n.paths.lengths {
			if l > len(path) {
				break
			}
			hits = append(hits, n.paths.byKey[path[:l]]...)
		}
		return hits
	}
	rest, label, more := cutLast(host)
	if next := n.literal[label]; next != nil {
		hits = next.match(rest, more, path, hits)
	}
	for _, l := range n.globs.lengths {
		if l > len(label) {
			break
		}
		for _, g := range n.globs.byKey[label[:l]] {
			if Label(g.pattern, label) {
				hits = g.next.match(rest, more, path, hits)
			}
		}
	}
	return hits
}

// cutLast cuts a host at its last dot.
func cutLast(host string) (rest, label string, more bool) {
	if i := strings.LastIndexByte(host, '.'); i >= 0 {
		return host[:i], host[i+1:], true
	}
	return "", host, false
}
