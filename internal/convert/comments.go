// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"bytes"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/regcred/regcred/config"
)

// aboutFile puts the comments that a file has about itself before one of its
// providers: of several files that become one, only the first keeps them at
// the top.
func (c *conversion) aboutFile(f *source, provider *yaml.Node) {
	at := c.top(f)
	if at.value == nil {
		return
	}
	texts := []string{f.document.HeadComment, at.value.HeadComment}
	for _, name := range []string{"apiVersion", "kind", "providers"} {
		if field := at.field(name); field.key != nil {
			texts = append(texts, field.key.HeadComment, field.key.LineComment, field.key.FootComment,
				field.value.HeadComment, field.value.LineComment, field.value.FootComment)
		}
	}
	texts = append(texts, at.value.FootComment, f.document.FootComment, provider.HeadComment)
	texts = slices.DeleteFunc(texts, func(s string) bool { return s == "" })
	provider.HeadComment = strings.Join(texts, "\n")
}

// counts says how often each line of comment occurs.
type counts map[string]int

// take removes one of a line, and reports whether there was one.
func (c counts) take(line string) bool {
	if c[line] == 0 {
		return false
	}
	c[line]--
	return true
}

// comments adds those of a node and of all below.
func (c counts) comments(n *yaml.Node) {
	if n == nil {
		return
	}
	for _, text := range []string{n.HeadComment, n.LineComment, n.FootComment} {
		for line := range strings.SplitSeq(text, "\n") {
			if line = strings.TrimSpace(line); line != "" {
				c[line]++
			}
		}
	}
	for _, child := range n.Content {
		c.comments(child)
	}
}

// lost returns the places of the comments that none of the files has. It
// shows no text: that may be a secret.
func (c *conversion) lost(files []File) []Place {
	kept := counts{}
	for _, f := range files {
		for _, comment := range newSource(&config.File{Data: f.Data}).comments() {
			kept[comment.text]++
		}
	}
	var list []Place
	for _, f := range c.files {
		for _, comment := range f.comments() {
			if !kept.take(comment.text) {
				list = append(list, Place{f.Name, comment.line})
			}
		}
	}
	return list
}

// comment is a comment on one line of a file.
type comment struct {
	line int
	text string
}

// comments returns those of the first document. The parser drops some without
// a word, so the text is searched, too.
func (s *source) comments() []comment {
	if s.format == JSON {
		return nil
	}
	known := counts{}
	known.comments(s.document)
	values := numberSigns(s.document)
	slices.Sort(values)
	var list []comment
	for i, line := range bytes.Split(s.Data, []byte("\n")) {
		if s.cut > 0 && i+1 >= s.cut {
			break
		}
		if text := commentIn(string(line), known, values); text != "" {
			list = append(list, comment{i + 1, text})
		}
	}
	return list
}

// commentIn returns the comment of a line, or "". What the parser does not
// know as one is one if no value has it.
func commentIn(line string, known counts, values []string) string {
	first := ""
	for i := range len(line) {
		if line[i] != '#' || i > 0 && line[i-1] != ' ' && line[i-1] != '\t' {
			continue
		}
		text := strings.TrimSpace(line[i:])
		if known.take(text) {
			return text
		}
		if first == "" {
			first = text
		}
	}
	// What may stand between a value and the end of its line is no part of it.
	rest := strings.TrimRight(first, `"', ]}`)
	i, _ := slices.BinarySearch(values, rest)
	if rest == "" || i < len(values) && strings.HasPrefix(values[i], rest) {
		return ""
	}
	return first
}

// numberSigns returns what follows each number sign in a value.
func numberSigns(n *yaml.Node) []string {
	if n == nil {
		return nil
	}
	var list []string
	if n.Kind == yaml.ScalarNode {
		for i := range len(n.Value) {
			if n.Value[i] == '#' {
				list = append(list, n.Value[i:])
			}
		}
	}
	for _, child := range n.Content {
		list = append(list, numberSigns(child)...)
	}
	return list
}
