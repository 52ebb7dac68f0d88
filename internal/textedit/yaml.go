// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package textedit

import (
	"errors"

	"go.yaml.in/yaml/v3"
)

// ParseYAML returns the top node of a YAML document, or nil if the document is empty. It
// returns an error if the parser panics.
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

// ResolveAlias returns the target of an alias node. It returns other nodes unchanged.
func ResolveAlias(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// MappingValue returns the value of a field in a mapping, or nil.
func MappingValue(n *yaml.Node, name string) *yaml.Node {
	n = ResolveAlias(n)
	if i := mappingKeyIndex(n, name); i >= 0 {
		return n.Content[i+1]
	}
	return nil
}

// mappingKeyIndex returns the index in n.Content of a field's key, or -1.
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

// SequenceItem returns the item with index i of a sequence, or nil.
func SequenceItem(n *yaml.Node, i int) *yaml.Node {
	if n = ResolveAlias(n); n == nil || n.Kind != yaml.SequenceNode || i >= len(n.Content) {
		return nil
	}
	return n.Content[i]
}

// maxExpansionDepth is the maximum depth of a document: the limit of encoding/json.
const maxExpansionDepth = 10000

// ExpandedSize returns the size of a document after its aliases are expanded. For each value,
// it adds overhead bytes to the size of the text. The result is at most most+1. An alias that
// refers to itself has size 0, because decoders reject it.
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
