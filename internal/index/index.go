// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package index finds which of many providers match a repository. The time depends on
// the repository and the number of matches, but not on the number of patterns.
package index

import (
	"slices"
	"sort"
	"strings"

	"github.com/regcred/regcred/internal/location"
)

// Index finds which of many lists of patterns, one per provider, match a repository. [New]
// builds it. It is read-only and safe for concurrent use; the zero value matches nothing.
//
// It is a trie. Its first level contains ports, and the other levels contain the labels of
// host names from right to left, because labels on the right rarely contain globs. A label
// with a glob is stored under the literal text before the glob. The patterns of one host are
// stored under their paths. So globs and paths are both found by looking up prefixes.
type Index struct {
	ports map[string]*node
}

// Hit is a matching pattern. List is the index of the pattern's list, and Pattern is its
// index in the list. Both start at 0.
type Hit struct {
	List, Pattern int
}

type node struct {
	literal map[string]*node     // by whole label
	globs   prefixMap[globLabel] // by the text before the first * or [
	paths   prefixMap[Hit]       // patterns that end here, by path
}

type globLabel struct {
	glob string
	next *node
}

// prefixMap finds the values whose key is a prefix of a string.
type prefixMap[T any] struct {
	byKey   map[string][]T
	lengths []int // lengths of the keys, ascending, without duplicates
}

func (p *prefixMap[T]) add(key string, v T) {
	if p.byKey == nil {
		p.byKey = map[string][]T{}
	}
	p.byKey[key] = append(p.byKey[key], v)
	if i := sort.SearchInts(p.lengths, len(key)); i == len(p.lengths) || p.lengths[i] != len(key) {
		p.lengths = slices.Insert(p.lengths, i, len(key))
	}
}

// New compiles lists of patterns. It does not keep the lists. Patterns that cannot be
// parsed match nothing, as in the kubelet.
func New(lists [][]string) *Index {
	ix := &Index{ports: map[string]*node{}}
	globs := map[globKey]*node{}
	for i, list := range lists {
		for j, s := range list {
			if at, err := location.Parse(s); err == nil {
				ix.add(at, Hit{i, j}, globs)
			}
		}
	}
	return ix
}

// globKey identifies a child with a glob while the index is being built.
type globKey struct {
	parent *node
	label  string
}

func (ix *Index) add(pattern location.Location, h Hit, globs map[globKey]*node) {
	n := ix.ports[pattern.Port]
	if n == nil {
		n = &node{}
		ix.ports[pattern.Port] = n
	}
	for rest, more := pattern.Host, true; more; {
		var label string
		rest, label, more = cutLastLabel(rest)
		n = n.childFor(label, globs)
	}
	n.paths.add(pattern.Path, h)
}

func (n *node) childFor(label string, globs map[globKey]*node) *node {
	meta := strings.IndexAny(label, "*[")
	if meta < 0 {
		next := n.literal[label]
		if next == nil {
			if n.literal == nil {
				n.literal = map[string]*node{}
			}
			next = &node{}
			n.literal[label] = next
		}
		return next
	}
	key := globKey{n, label}
	next := globs[key]
	if next == nil {
		next = &node{}
		globs[key] = next
		n.globs.add(label[:meta], globLabel{label, next})
	}
	return next
}

// Match returns one hit for each matching list, in order, with the list's first
// matching pattern. It appends to hits, which must be empty, and allocates only if hits
// does not have enough capacity.
func (ix *Index) Match(at location.Location, hits []Hit) []Hit {
	if root := ix.ports[at.Port]; root != nil {
		hits = root.collectHits(at.Host, true, at.Path, hits)
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

func (n *node) collectHits(host string, more bool, path string, hits []Hit) []Hit {
	if !more {
		for _, l := range n.paths.lengths {
			if l > len(path) {
				break
			}
			hits = append(hits, n.paths.byKey[path[:l]]...)
		}
		return hits
	}
	rest, label, more := cutLastLabel(host)
	if next := n.literal[label]; next != nil {
		hits = next.collectHits(rest, more, path, hits)
	}
	for _, l := range n.globs.lengths {
		if l > len(label) {
			break
		}
		for _, g := range n.globs.byKey[label[:l]] {
			if location.MatchLabel(g.glob, label) {
				hits = g.next.collectHits(rest, more, path, hits)
			}
		}
	}
	return hits
}

// cutLastLabel splits a host at its last dot.
func cutLastLabel(host string) (rest, label string, more bool) {
	if i := strings.LastIndexByte(host, '.'); i >= 0 {
		return host[:i], host[i+1:], true
	}
	return "", host, false
}
