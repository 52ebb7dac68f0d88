// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/regcred/regcred/config"
)

// maxNodeDepth bounds how far aliases and merges are followed.
const maxNodeDepth = 32

// source is a file, and what a YAML parser makes of its first document. What
// the file says has been decided by [config.Load]; nodes are asked for places,
// comments and spelling alone.
type source struct {
	*config.File
	format   Format
	document *yaml.Node // nil if the file cannot be parsed
	cut      int        // line of a second document, 0 if there is none
}

func newSource(f *config.File) *source {
	if bytes.HasPrefix(bytes.TrimLeftFunc(f.Data, unicode.IsSpace), []byte("{")) {
		// Nearly all JSON is YAML, but for tabs. None is within a string.
		return &source{File: f, format: JSON, document: parse(bytes.ReplaceAll(f.Data, []byte("\t"), []byte(" ")))}
	}
	return &source{File: f, format: YAML, document: parse(f.Data), cut: secondDocument(f.Data)}
}

// parse parses the first document of a file.
func parse(data []byte) (document *yaml.Node) {
	// A file that the deciding parser took must not fail here.
	defer func() {
		if recover() != nil {
			document = nil
		}
	}()
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil || len(doc.Content) == 0 {
		return nil
	}
	return &doc
}

// secondDocument returns the line of the mark behind which a second document
// begins that has any text, or 0. The mark cannot be part of a value.
func secondDocument(data []byte) int {
	begun, mark := false, 0
	for i, raw := range bytes.Split(data, []byte("\n")) {
		line := strings.TrimRight(string(raw), " \t\r")
		if line == "---" || line == "..." || strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "---\t") {
			if begun && mark == 0 {
				mark = i + 1
			}
			line = line[3:]
		}
		line = strings.TrimLeft(strings.TrimPrefix(line, "\ufeff"), " \t")
		if line == "" || line[0] == '#' || line[0] == '%' {
			continue
		}
		if mark > 0 {
			return mark
		}
		begun = true
	}
	return 0
}

// spot is a place in a document: a value, and in a mapping its key. The zero
// spot is a place that the document does not have.
type spot struct{ key, value *yaml.Node }

// top returns the place of the whole document.
func (s *source) top() spot {
	if s.document == nil {
		return spot{}
	}
	return spot{value: s.document.Content[0]}
}

// field returns the place of a field.
func (s spot) field(name string) spot { return s.fieldAt(name, 0) }

func (s spot) fieldAt(name string, depth int) spot {
	n := deref(s.value)
	if n == nil || n.Kind != yaml.MappingNode || depth > maxNodeDepth {
		return spot{}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if k := deref(n.Content[i]); k != nil && k.Value == name && k.Tag != "!!merge" {
			return spot{n.Content[i], n.Content[i+1]}
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Tag != "!!merge" {
			continue
		}
		for _, m := range merged(n.Content[i+1]) {
			if at := (spot{value: m}).fieldAt(name, depth+1); at.value != nil {
				return at
			}
		}
	}
	return spot{}
}

// item returns the place of an entry of a list.
func (s spot) item(i int) spot {
	n := deref(s.value)
	if n == nil || n.Kind != yaml.SequenceNode || i >= len(n.Content) {
		return spot{}
	}
	return spot{value: n.Content[i]}
}

// merged returns the mappings that the value of a merge key names.
func merged(n *yaml.Node) []*yaml.Node {
	if n.Kind == yaml.SequenceNode {
		return n.Content
	}
	return []*yaml.Node{n}
}

// deref follows aliases; nil if there is nothing, or they do not end.
func deref(n *yaml.Node) *yaml.Node {
	for range maxNodeDepth {
		if n == nil || n.Kind != yaml.AliasNode {
			return n
		}
		n = n.Alias
	}
	return nil
}

// replacement is a text to be put in place of another.
type replacement struct {
	offset   int
	old, new string
}

// edit changes nothing but versions in the text of f. It fails if that is not
// enough, or if the text is not where the parser says; whether the edit has
// the wanted effect is up to the caller to check.
func (s *source) edit(want []config.Provider) (data []byte, ok bool) {
	if s.Kind != configKind {
		return nil, false
	}
	var list []replacement
	add := func(at spot, old, new string) bool {
		if old == new {
			return true
		}
		offset := s.find(at.value, old)
		list = append(list, replacement{offset, old, new})
		return offset >= 0
	}
	if !add(s.top().field("apiVersion"), s.APIVersion, configV1) {
		return nil, false
	}
	providers := s.top().field("providers")
	for i, p := range want {
		at := providers.item(i).field("apiVersion")
		if at.value == nil || !add(at, deref(at.value).Value, p.APIVersion) {
			return nil, false
		}
	}
	return replace(s.Data, list), true
}

// find returns the offset of a text on the line of a node, from where the
// node begins; -1 if it is not there.
func (s *source) find(n *yaml.Node, text string) int {
	if n = deref(n); n == nil {
		return -1
	}
	start := 0
	for range n.Line - 1 {
		i := bytes.IndexByte(s.Data[start:], '\n')
		if i < 0 {
			return -1
		}
		start += i + 1
	}
	line, _, _ := bytes.Cut(s.Data[start:], []byte("\n"))
	from := byteIndex(line, n.Column-1)
	i := bytes.Index(line[from:], []byte(text))
	if i < 0 {
		return -1
	}
	return start + from + i
}

// byteIndex returns where a character begins, counted from 0.
func byteIndex(line []byte, character int) int {
	index := 0
	for ; character > 0 && index < len(line); character-- {
		_, size := utf8.DecodeRune(line[index:])
		index += size
	}
	return index
}

// replace carries out replacements. Two of the same place, which aliases
// lead to, are one.
func replace(data []byte, list []replacement) []byte {
	slices.SortFunc(list, func(a, b replacement) int { return a.offset - b.offset })
	list = slices.Compact(list)
	var out []byte
	from := 0
	for _, r := range list {
		out = append(append(out, data[from:r.offset]...), r.new...)
		from = r.offset + len(r.old)
	}
	return append(out, data[from:]...)
}
