// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"bytes"
	"encoding/json"

	"go.yaml.in/yaml/v3"
)

// render writes a document. A document that cannot be written is empty, and
// then is found not to say what it should.
func render(doc *yaml.Node, format Format) []byte {
	if format == JSON {
		var compact, out bytes.Buffer
		writeJSON(&compact, doc.Content[0])
		if json.Indent(&out, compact.Bytes(), "", "  ") != nil {
			return nil
		}
		return append(out.Bytes(), '\n')
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if enc.Encode(doc) != nil || enc.Close() != nil {
		return nil
	}
	return out.Bytes()
}

// writeJSON writes a node without its comments, and with its fields in order.
func writeJSON(out *bytes.Buffer, n *yaml.Node) {
	switch {
	case n.Kind == yaml.MappingNode:
		out.WriteByte('{')
		for i, child := range n.Content {
			writeJSON(out, child)
			out.WriteByte(":,"[i%2])
		}
		closeJSON(out, '}')
	case n.Kind == yaml.SequenceNode:
		out.WriteByte('[')
		for _, child := range n.Content {
			writeJSON(out, child)
			out.WriteByte(',')
		}
		closeJSON(out, ']')
	case n.Tag == "!!bool":
		out.WriteString(n.Value)
	default:
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(n.Value) // a string, into memory
		out.Truncate(out.Len() - 1)
	}
}

// closeJSON ends an object or a list, in place of the last comma.
func closeJSON(out *bytes.Buffer, bracket byte) {
	if out.Bytes()[out.Len()-1] == ',' {
		out.Truncate(out.Len() - 1)
	}
	out.WriteByte(bracket)
}
