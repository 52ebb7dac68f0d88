// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package textedit

import (
	"errors"

	"go.yaml.in/yaml/v3"
)

// ParseYAML returns the top node of a document, or nil if the document is empty. If the
// parser panics, ParseYAML returns an error.
func ParseYAML(document []byte) (top *yaml.Node, err error) {
	defer func() {
		if recover() != nil {
			top, err = nil, errors.New("not YAML")
		}
	}()
	var doc yaml.Node
	if err := yaml.Unmarshal(document, &doc); err != nil || len(doc.Content) == 0 {
		return nil, err
	}
	return doc.Content[0], nil
}

// ResolveAlias returns the target of an alias. It returns other nodes unchanged.
func ResolveAlias(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// MappingValue returns the value of a field of a mapping, or nil.
func MappingValue(n *yaml.Node, name string) *yaml.Node {
	n = ResolveAlias(n)
	if i := mappingKeyIndex(n, name); i >= 0 {
		return n.Content[i+1]
	}
	return nil
}

// mappingKeyIndex returns the index of a field's key in n.Content, or -1.
func mappingKeyIndex(n *yaml.Node, name string) int {
	if n == nil || n.Kind != yaml.MappingNode {
		return -1
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := ResolveAlias(n.Content[i]); key.Value == name && key.Tag != "!!merge" {
			return i
		}
	}
	return -1
}

// SequenceItem returns an item of a sequence, or nil.
func SequenceItem(n *yaml.Node, i int) *yaml.Node {
	if n = ResolveAlias(n); n == nil || n.Kind != yaml.SequenceNode || i >= len(n.Content) {
		return nil
	}
	return n.Content[i]
}

// maxExpansionDepth exceeds the depth limit of the JSON decoder.
const maxExpansionDepth = 10000

// ExpandedSize returns the size of a document after its aliases are expanded, up to
// most+1. It counts overhead bytes for each value in addition to its text. The target
// of an alias that contains itself counts as empty, because decoders reject it.
func ExpandedSize(top *yaml.Node, overhead, most int) int {
	anchored := map[*yaml.Node]int{}
	var size func(n *yaml.Node, depth int) int
	size = func(n *yaml.Node, depth int) int {
		n = ResolveAlias(n)
		if n == nil {
			return 0
		}
		if depth > maxExpansionDepth {
			return most + 1
		}
		if known, ok := anchored[n]; ok {
			return known
		}
		if n.Anchor != "" {
			anchored[n] = 0
		}
		total := len(n.Value) + overhead
		for _, child := range n.Content {
			total = min(total+size(child, depth+1), most+1)
		}
		if n.Anchor != "" {
			anchored[n] = total
		}
		return total
	}
	return size(top, 0)
}
