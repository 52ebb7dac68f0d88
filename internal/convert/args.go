// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/textedit"
	"github.com/regcred/regcred/plugin"
)

// AddArgs prepends arguments to the args of providers, by provider index, without
// changing any other bytes. It returns an error if a file's syntax prevents this. It
// does not write files.
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

// prependArgs returns the edit that inserts arguments before a provider's own.
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
