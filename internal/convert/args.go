// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/plugin"
)

// AddArgs puts arguments in front of those of providers, by their index, in
// the text of the files: nothing else changes. It fails where a file is written
// so that this cannot be done, which it then says; no file is written.
func AddArgs(src *config.Config, args map[int][]string) ([]File, error) {
	var files []File
	for _, f := range src.Files() {
		s := newSource(f)
		want := slices.Clone(src.Providers[f.First:][:f.Count])
		var list []replacement
		for i := range want {
			add := args[f.First+i]
			if len(add) == 0 {
				continue
			}
			at, text, ok := s.insertion(item(field(s.top(), "providers"), i), add)
			if !ok {
				return nil, byHand(src, f, map[int][]string{f.First + i: add})
			}
			list = append(list, replacement{offset: at, new: text})
			secrets := make([]plugin.Secret, len(add))
			for k, a := range add {
				secrets[k] = plugin.NewSecret(a)
			}
			want[i].Args = append(secrets, want[i].Args...)
		}
		data := replace(f.Data(), list)
		if got, err := config.Parse(f.Name, data); err != nil || difference(want, got.Providers) != "" {
			return nil, byHand(src, f, args)
		}
		files = append(files, File{f.Name, data, f.Data()})
	}
	return files, nil
}

// byHand is the error for a file that says what it says in an unusual way:
// aliases, tabs, another encoding.
func byHand(src *config.Config, f *config.File, args map[int][]string) error {
	where, what := f.Name, []string{}
	for i := f.First; i < f.First+f.Count; i++ {
		if add := args[i]; len(add) > 0 {
			where = src.Position(i).String()
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

// insertion says what to insert where, so that a provider has more arguments
// in front of its own.
func (s *source) insertion(provider *yaml.Node, add []string) (offset int, text string, ok bool) {
	if provider == nil || provider.Kind != yaml.MappingNode || len(provider.Content) < 4 {
		return 0, "", false
	}
	args := field(provider, "args")
	switch {
	case args == nil:
		return s.newField(provider, add)
	case args.Kind != yaml.SequenceNode:
		return 0, "", false
	case args.Style&yaml.FlowStyle != 0:
		if offset = s.find(args, "["); offset < 0 {
			return 0, "", false
		}
		text = strings.Join(quoted(add), ", ")
		if len(args.Content) > 0 {
			text += ", "
		}
		return offset + 1, text, true
	}
	offset, indent, ok := s.lineOf(args)
	return offset, items(indent, add), ok
}

// newField writes args before the second field of a provider: the first may
// share its line with a dash or a bracket.
func (s *source) newField(provider *yaml.Node, add []string) (offset int, text string, ok bool) {
	if provider.Style&yaml.FlowStyle == 0 {
		offset, indent, ok := s.lineOf(provider.Content[2])
		return offset, indent + "args:\n" + items(indent, add), ok
	}
	key := provider.Content[2]
	field := `"args": [` + strings.Join(quoted(add), ", ") + "],"
	if offset, indent, ok := s.lineOf(key); ok {
		return offset, indent + field + "\n", true
	}
	quote := `"`
	if key.Style&yaml.DoubleQuotedStyle == 0 {
		quote = key.Value
	}
	offset = s.find(key, quote)
	return offset, field + " ", offset >= 0
}

// lineOf returns where the line of a node begins, and what precedes the node
// there, if that is white space alone.
func (s *source) lineOf(n *yaml.Node) (offset int, indent string, ok bool) {
	line, start := s.line(n.Line)
	if start < 0 {
		return 0, "", false
	}
	indent = string(line[:s.byteIndex(n.Line, n.Column-1)])
	return start, indent, strings.Trim(indent, " \t") == ""
}

// items writes a list in block style.
func items(indent string, add []string) string {
	var b strings.Builder
	for i, text := range quoted(add) {
		if isPlain(add[i]) {
			text = add[i]
		}
		b.WriteString(indent + "- " + text + "\n")
	}
	return b.String()
}

func quoted(add []string) []string {
	list := make([]string, len(add))
	for i, s := range add {
		list[i] = fmt.Sprintf("%q", s) // flags and hosts: what Go quotes is JSON
	}
	return list
}
