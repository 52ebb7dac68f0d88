// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/textedit"
	"github.com/regcred/regcred/plugin"
)

// AddArgs prepends arguments to the args of providers without changing any other bytes. The
// keys of args are provider indexes. AddArgs returns an error if a file's syntax prevents
// this. It does not write files.
func AddArgs(src *config.Config, args map[int][]string) ([]File, error) {
	var files []File
	for _, f := range src.Files() {
		s := newSourceFile(f)
		want := slices.Clone(src.Providers[f.First:][:f.Count])
		var edits []textedit.Edit
		for i := range want {
			add := args[f.First+i]
			if len(add) == 0 {
				continue
			}
			edit, ok := s.prependArgs(textedit.SequenceItem(textedit.MappingValue(s.root, "providers"), i), add)
			if !ok {
				return nil, manualEditError(src, f, map[int][]string{f.First + i: add})
			}
			edits = append(edits, edit)
			secrets := make([]plugin.Secret, len(add))
			for k, a := range add {
				secrets[k] = plugin.NewSecret(a)
			}
			want[i].Args = append(secrets, want[i].Args...)
		}
		data := textedit.Apply(f.Data(), edits...)
		if got, err := config.Parse(f.Name, data); err != nil || firstDifference(want, got.Providers) != "" {
			return nil, manualEditError(src, f, args)
		}
		files = append(files, File{f.Name, data, f.Data()})
	}
	return files, nil
}

// manualEditError returns the error for a file that must be edited manually, for
// example because of aliases, tabs or its encoding.
func manualEditError(src *config.Config, f *config.File, args map[int][]string) error {
	where, what := f.Name, []string{}
	for i := f.First; i < f.First+f.Count; i++ {
		if add := args[i]; len(add) > 0 {
			where = src.Position(i, "").String()
			what = append(what, where+": "+strings.Join(add, " "))
		}
	}
	if len(what) == 1 {
		what[0] = strings.TrimPrefix(what[0], where+": ")
	} else {
		where = f.Name
	}
	return fmt.Errorf("%s: cannot add arguments automatically because of the file's formatting; add them manually: %s", where, strings.Join(what, "; "))
}

// prependArgs returns the edit that inserts arguments before a provider's existing
// arguments.
func (s *sourceFile) prependArgs(provider *yaml.Node, add []string) (e textedit.Edit, ok bool) {
	if provider == nil || provider.Kind != yaml.MappingNode || len(provider.Content) < 4 {
		return e, false
	}
	args := textedit.MappingValue(provider, "args")
	switch {
	case args == nil:
		return s.insertArgsField(provider, add)
	case args.Kind != yaml.SequenceNode:
		return e, false
	case args.Style&yaml.FlowStyle != 0:
		text := strings.Join(quoteArgs(add), ", ")
		if len(args.Content) > 0 {
			text += ", "
		}
		bracket := s.findOnLine(args, "[")
		return textedit.InsertEdit(bracket+1, text), bracket >= 0
	}
	offset, indent, ok := s.lineStart(args)
	return textedit.InsertEdit(offset, blockList(indent, add)), ok
}

// insertArgsField inserts args before a provider's second field, because the first
// field may share its line with a dash or a bracket.
func (s *sourceFile) insertArgsField(provider *yaml.Node, add []string) (e textedit.Edit, ok bool) {
	key := provider.Content[2]
	offset, indent, ok := s.lineStart(key)
	if provider.Style&yaml.FlowStyle == 0 {
		return textedit.InsertEdit(offset, indent+"args:\n"+blockList(indent, add)), ok
	}
	field := `"args": [` + strings.Join(quoteArgs(add), ", ") + "],"
	if ok {
		return textedit.InsertEdit(offset, indent+field+"\n"), true
	}
	begin := `"`
	if key.Style&yaml.DoubleQuotedStyle == 0 {
		begin = key.Value
	}
	offset = s.findOnLine(key, begin)
	return textedit.InsertEdit(offset, field+" "), offset >= 0
}

// lineStart returns the offset of the line that contains a node, and the text on that
// line before the node. It returns false if that text is not only whitespace.
func (s *sourceFile) lineStart(n *yaml.Node) (offset int, indent string, ok bool) {
	line, ok := s.Line(n.Line)
	if !ok {
		return 0, "", false
	}
	indent = string(s.Data()[line.From:s.Offset(n.Line, n.Column)])
	return line.From, indent, strings.Trim(indent, " \t") == ""
}

func blockList(indent string, add []string) string {
	var b strings.Builder
	for i, text := range quoteArgs(add) {
		if isPlainText(add[i]) {
			text = add[i]
		}
		b.WriteString(indent + "- " + text + "\n")
	}
	return b.String()
}

func quoteArgs(add []string) []string {
	list := make([]string, len(add))
	for i, s := range add {
		list[i] = fmt.Sprintf("%q", s) // only flags and hosts, for which Go's quoting is valid JSON
	}
	return list
}

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
		// YAML 1.2 is a superset of JSON, but the parser rejects tabs. Tabs can be
		// replaced, because JSON strings contain none.
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
		edits = append(edits, textedit.Edit{Span: textedit.Span{From: offset, To: offset + len(old)}, Text: new})
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
