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
	lines    []int      // where each line begins
	last     place      // the last that was looked for; the next is mostly behind it
}

// place is a character, counted from 0 as lines are, and the byte where it begins
// on its line.
type place struct{ line, character, index int }

func newSource(f *config.File) *source {
	if bytes.HasPrefix(bytes.TrimLeftFunc(f.Data(), unicode.IsSpace), []byte("{")) {
		// Nearly all JSON is YAML, but for tabs. None is within a string.
		return &source{File: f, format: JSON, document: parse(bytes.ReplaceAll(f.Data(), []byte("\t"), []byte(" "))), lines: beginnings(f.Data())}
	}
	text, next := f.Document()
	return &source{File: f, format: YAML, document: parse(text), cut: next, lines: beginnings(f.Data())}
}

// beginnings returns where each line of a text begins.
func beginnings(text []byte) []int {
	list := []int{0}
	for i, c := range text {
		if c == '\n' {
			list = append(list, i+1)
		}
	}
	return list
}

// line returns a line and where it begins, without its end; nil if there is none.
func (s *source) line(number int) (text []byte, start int) {
	if number < 1 || number > len(s.lines) {
		return nil, -1
	}
	start = s.lines[number-1]
	if number == len(s.lines) {
		return s.Data()[start:], start
	}
	return s.Data()[start : s.lines[number]-1], start
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
	line, start := s.line(n.Line)
	if start < 0 {
		return -1
	}
	from := s.byteIndex(n.Line, n.Column-1)
	i := bytes.Index(line[from:], []byte(text))
	if i < 0 {
		return -1
	}
	return start + from + i
}

// byteIndex returns where a character of a line begins, counted from 0. A line
// may be the whole file: it is walked once, as long as places come in order.
func (s *source) byteIndex(number, character int) int {
	at := place{line: number}
	if s.last.line == number && s.last.character <= character {
		at = s.last
	}
	for line, _ := s.line(number); at.character < character && at.index < len(line); at.character++ {
		_, size := utf8.DecodeRune(line[at.index:])
		at.index += size
	}
	s.last = at
	return at.index
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
