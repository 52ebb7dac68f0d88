// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"bytes"
	"regexp"

	"go.yaml.in/yaml/v3"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/textedit"
)

// sourceFile is a file and the nodes of its first document. The nodes only provide
// positions; [config.Load] decides what the file means.
type sourceFile struct {
	*config.File
	*textedit.LineIndex
	format         Format
	root           *yaml.Node // nil if the file cannot be parsed
	secondDocument int        // its line, or 0
}

func newSourceFile(f *config.File) *sourceFile {
	s := &sourceFile{File: f, LineIndex: textedit.NewLineIndex(f.Data())}
	var text []byte
	if textedit.IsJSON(f.Data()) {
		// YAML 1.2 is a superset of JSON, but the parser rejects tabs. JSON strings
		// contain no tabs.
		s.format, text = JSON, bytes.ReplaceAll(f.Data(), []byte("\t"), []byte(" "))
	} else {
		s.format = YAML
		text, s.secondDocument = textedit.KubeletDocument(f.Data())
	}
	s.root, _ = textedit.ParseYAML(text)
	return s
}

// commentStartPattern matches text that may begin a comment. It may also match inside
// values.
var commentStartPattern = regexp.MustCompile(`(?m)(^|[ \t])#`)

func (s *sourceFile) hasComments() bool {
	text := s.Data()
	if line, ok := s.Line(s.secondDocument); ok {
		text = text[:line.From]
	}
	return s.format == YAML && commentStartPattern.Match(text)
}

// editVersions changes only the versions in the text of s. It returns false if that is
// not enough, or if the text does not match the nodes. The caller must check the
// result.
func (s *sourceFile) editVersions(want []config.Provider) (data []byte, ok bool) {
	if s.Kind != config.Kind {
		return nil, false
	}
	var edits []textedit.Edit
	replace := func(at *yaml.Node, old, new string) bool {
		if old == new {
			return true
		}
		offset := s.findOnLine(at, old)
		edits = append(edits, textedit.Edit{Span: textedit.Span{From: offset, To: offset + len(old)}, New: new})
		return offset >= 0
	}
	if !replace(textedit.MappingValue(s.root, "apiVersion"), s.APIVersion, config.V1) {
		return nil, false
	}
	providers := textedit.MappingValue(s.root, "providers")
	for i, p := range want {
		at := textedit.ResolveAlias(textedit.MappingValue(textedit.SequenceItem(providers, i), "apiVersion"))
		if at == nil || !replace(at, at.Value, p.APIVersion) {
			return nil, false
		}
	}
	return textedit.Apply(s.Data(), edits...), true
}

// findOnLine returns the offset of a text on a node's line, at or after the node, or -1
// if it is not found.
func (s *sourceFile) findOnLine(n *yaml.Node, text string) int {
	if n = textedit.ResolveAlias(n); n == nil {
		return -1
	}
	line, ok := s.Line(n.Line)
	if !ok {
		return -1
	}
	from := s.Offset(n.Line, n.Column)
	if i := bytes.Index(s.Data()[from:line.To], []byte(text)); i >= 0 {
		return from + i
	}
	return -1
}
