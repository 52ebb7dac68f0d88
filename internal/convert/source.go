// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"bytes"
	"regexp"
	"slices"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/regcred/regcred/config"
)

// source is a file, and what a YAML parser makes of its first document. What
// the file says has been decided by [config.Load]; nodes are asked for places
// alone.
type source struct {
	*config.File
	format   Format
	document *yaml.Node // nil if the file cannot be parsed
	cut      int        // line of a second document, 0 if there is none
}

func newSource(f *config.File) *source {
	if bytes.HasPrefix(bytes.TrimLeftFunc(f.Data(), unicode.IsSpace), []byte("{")) {
		// Nearly all JSON is YAML, but for tabs. None is within a string.
		return &source{File: f, format: JSON, document: parse(bytes.ReplaceAll(f.Data(), []byte("\t"), []byte(" ")))}
	}
	text, next := f.Document()
	return &source{File: f, format: YAML, document: parse(text), cut: next}
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

// commentStart is what may begin a comment. Within a value it may mean itself.
var commentStart = regexp.MustCompile(`(?m)(^|[ \t])#`)

// commented reports whether a file seems to have comments.
func (s *source) commented() bool {
	lines := bytes.SplitAfter(s.Data(), []byte("\n"))
	if s.cut > 0 {
		lines = lines[:s.cut-1] // the rest is no part of the configuration
	}
	return s.format == YAML && commentStart.Match(bytes.Join(lines, nil))
}

// top returns the value of the whole document, or nil.
func (s *source) top() *yaml.Node {
	if s.document == nil {
		return nil
	}
	return s.document.Content[0]
}

// field returns the value of a field, or nil.
func field(n *yaml.Node, name string) *yaml.Node {
	if n = deref(n); n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if k := deref(n.Content[i]); k.Value == name && k.Tag != "!!merge" {
			return n.Content[i+1]
		}
	}
	return nil
}

// item returns an entry of a list, or nil.
func item(n *yaml.Node, i int) *yaml.Node {
	if n = deref(n); n == nil || n.Kind != yaml.SequenceNode || i >= len(n.Content) {
		return nil
	}
	return n.Content[i]
}

// deref follows an alias.
func deref(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
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
	add := func(at *yaml.Node, old, new string) bool {
		if old == new {
			return true
		}
		offset := s.find(at, old)
		list = append(list, replacement{offset, old, new})
		return offset >= 0
	}
	if !add(field(s.top(), "apiVersion"), s.APIVersion, configV1) {
		return nil, false
	}
	providers := field(s.top(), "providers")
	for i, p := range want {
		at := deref(field(item(providers, i), "apiVersion"))
		if at == nil || !add(at, at.Value, p.APIVersion) {
			return nil, false
		}
	}
	return replace(s.Data(), list), true
}

// find returns the offset of a text on the line of a node, from where the
// node begins; -1 if it is not there.
func (s *source) find(n *yaml.Node, text string) int {
	if n = deref(n); n == nil {
		return -1
	}
	start := 0
	for range n.Line - 1 {
		i := bytes.IndexByte(s.Data()[start:], '\n')
		if i < 0 {
			return -1
		}
		start += i + 1
	}
	line, _, _ := bytes.Cut(s.Data()[start:], []byte("\n"))
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
