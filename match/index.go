// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"slices"
	"sort"
	"strings"
)

// index finds the providers whose matchImages match an image, in time that
// depends on the image and on what matches rather than on the number of
// patterns. It is built once and read-only afterwards.
//
// Patterns stand in a trie by port and then by labels from the right, where
// they have the fewest globs. A label with a glob is filed under the literal
// text before it, and the patterns of one host under their paths, so that
// both are found by looking up the prefixes of what the image has.
type index struct {
	ports map[string]*trieNode
}

// hit is a pattern that matches: the provider's place in the configuration
// and the pattern's place in its matchImages.
type hit struct {
	provider, pattern int
}

type trieNode struct {
	literal map[string]*trieNode // by whole label
	globs   prefixes[globLabel]  // by the text before the first * or [
	paths   prefixes[hit]        // patterns that end here, by path
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

// newIndex compiles the providers' patterns. Patterns that do not parse match
// nothing, as in the kubelet.
func newIndex(providers []Provider) *index {
	ix := &index{ports: map[string]*trieNode{}}
	globs := map[globKey]*trieNode{}
	for i, p := range providers {
		for j, s := range p.MatchImages {
			if pat, err := ParsePattern(s); err == nil {
				ix.add(pat, hit{i, j}, globs)
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

func (ix *index) add(p Pattern, h hit, globs map[globKey]*trieNode) {
	n := ix.ports[p.at.port]
	if n == nil {
		n = &trieNode{}
		ix.ports[p.at.port] = n
	}
	for rest, more := p.at.host, true; more; {
		var label string
		rest, label, more = cutLast(rest)
		n = n.child(label, globs)
	}
	n.paths.add(p.at.path, h)
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

// match appends to hits one hit for each provider that matches, in the order
// of the configuration, each with the first of its patterns that does.
func (ix *index) match(at location, hits []hit) []hit {
	if root := ix.ports[at.port]; root != nil {
		hits = root.match(at.host, true, at.path, hits)
	}
	if len(hits) < 2 {
		return hits
	}
	slices.SortFunc(hits, func(a, b hit) int {
		if a.provider != b.provider {
			return a.provider - b.provider
		}
		return a.pattern - b.pattern
	})
	return slices.CompactFunc(hits, func(a, b hit) bool { return a.provider == b.provider })
}

func (n *trieNode) match(host string, more bool, path string, hits []hit) []hit {
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
			if labelMatch(g.pattern, label) {
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
