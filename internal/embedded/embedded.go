// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package embedded finds CredentialProviderConfigs inside other files: machine configurations, cluster
// API objects, ConfigMaps, user data, Ignition files, Helm values, shell scripts and Terraform files.
//
//	for _, c := range embedded.Find(data) {
//		cfg, err := config.Parse(path, c.Text) // positions refer to data
//	}
package embedded

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Config is a configuration inside a file.
type Config struct {
	Where string // path of the field that contains it, such as "machine.kubelet.credentialProviderConfig"
	Line  int    // line of the file at which it begins

	// Text is the configuration. If Exact is set, lines and columns in it are the same as in the
	// file. Otherwise, it is encoded in the file at Line and Column.
	Text   []byte
	Exact  bool
	Column int

	IsText bool // the field is a string, not an object
}

// Limits for a file.
const (
	maxSize    = 4 << 20
	maxDepth   = 5
	maxConfigs = 100
	maxNodes   = 200_000
)

// Kind is the kind of the configuration.
const Kind = "CredentialProviderConfig"

// mentionPattern quickly rejects text that contains no configuration.
var mentionPattern = regexp.MustCompile(`(?i)CredentialProviderConfig`)

// Find returns the configurations inside a file. It returns none if the file itself is a
// configuration or a list of them, also after empty YAML documents. The kubelet rejects the latter.
func Find(data []byte) []Config {
	if len(data) > maxSize {
		return nil
	}
	f := &finder{}
	f.search(data, "", 1)
	return f.found
}

type finder struct {
	found []Config
	nodes int
}

func (f *finder) add(c Config) {
	if len(f.found) < maxConfigs {
		f.found = append(f.found, c)
	}
}

// search searches a text, whose lines are the lines of the file.
func (f *finder) search(text []byte, where string, depth int) {
	docs, first := parseDocuments(text), true
	for _, doc := range docs {
		if doc.Kind != yaml.MappingNode && doc.Kind != yaml.SequenceNode {
			continue
		}
		if depth == 1 && first && (isConfig(doc) || doc.Kind == yaml.SequenceNode && slices.ContainsFunc(doc.Content, isConfig)) {
			return
		}
		first = false
		at := where
		if len(docs) > 1 && kindOf(doc) != "" {
			at = strings.TrimPrefix(where+": "+kindOf(doc), ": ")
		}
		f.walk(text, doc, at, depth)
	}
	if len(f.found) == 0 {
		f.searchParts(text, where, depth)
	}
}

// parseDocuments parses the YAML documents of a text. It stops at the first error.
func parseDocuments(text []byte) (docs []*yaml.Node) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for range 100 {
		var doc yaml.Node
		if err := decoder.Decode(&doc); err != nil {
			break
		}
		if len(doc.Content) > 0 {
			docs = append(docs, doc.Content[0])
		}
	}
	return docs
}

// isConfig reports whether a mapping is a CredentialProviderConfig.
func isConfig(n *yaml.Node) bool { return n.Kind == yaml.MappingNode && kindOf(n) == Kind }

func kindOf(n *yaml.Node) string {
	if v := member(n, "kind"); v != nil && v.Kind == yaml.ScalarNode {
		return v.Value
	}
	return ""
}

func member(n *yaml.Node, key string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// walk searches a node.
func (f *finder) walk(text []byte, n *yaml.Node, where string, depth int) {
	if f.nodes++; f.nodes > maxNodes {
		return
	}
	switch n.Kind {
	case yaml.MappingNode:
		if isConfig(n) {
			f.addObject(text, n, where)
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			at := joinField(where, key.Value)
			if key.Value == "credentialProviderConfig" && member(value, "providers") != nil {
				f.addObject(text, value, at)
				continue
			}
			if file := member(n, "path"); file != nil && file.Kind == yaml.ScalarNode && value.Kind == yaml.ScalarNode && key.Value != "path" {
				at += " (" + file.Value + ")"
			}
			f.walk(text, value, at, depth)
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			f.walk(text, item, fmt.Sprintf("%s[%d]", where, i), depth)
		}
	case yaml.ScalarNode:
		f.searchString(text, n, where, depth)
	}
}

// linePattern matches the place of a part of a script.
var linePattern = regexp.MustCompile(`\bline \d+$`)

// joinField returns the path of a field.
func joinField(where, key string) string {
	if strings.ContainsAny(key, ".: /[]") {
		key = fmt.Sprintf("%q", key)
	}
	switch {
	case where == "":
		return key
	case linePattern.MatchString(where):
		return where + ": " + key
	}
	return where + "." + key
}

// addObject adds a configuration that is an object in the file.
func (f *finder) addObject(text []byte, n *yaml.Node, where string) {
	c := Config{Where: where, Line: n.Line, Column: n.Column}
	var end int
	start := offset(text, n.Line, n.Column)
	if n.Style&yaml.FlowStyle != 0 {
		end = matchBracket(text, start)
	} else {
		end = blockEnd(text, start, n.Column)
	}
	if end > start {
		c.Text, c.Exact = append(blank(text[:start]), text[start:end]...), true
	}
	if docs := parseDocuments(c.Text); !c.Exact || len(docs) == 0 || len(docs[0].Content) != len(n.Content) {
		out, err := yaml.Marshal(n)
		if err != nil {
			return
		}
		c.Text, c.Exact = out, false
	}
	f.add(c)
}

// blank replaces everything except line breaks with spaces.
func blank(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		switch r {
		case '\n', '\r':
			out = append(out, byte(r))
		case '\ufeff':
		default:
			out = append(out, ' ')
		}
	}
	// Only the indentation of the last line matters.
	lines := bytes.Split(out, []byte("\n"))
	for i := range lines[:len(lines)-1] {
		lines[i] = bytes.TrimLeft(lines[i], " ")
	}
	return bytes.Join(lines, []byte("\n"))
}

// offset returns the offset of a line and column, which count from 1. Columns count characters.
func offset(text []byte, line, column int) int {
	at := 0
	for ; line > 1; line-- {
		i := bytes.IndexByte(text[at:], '\n')
		if i < 0 {
			return len(text)
		}
		at += i + 1
	}
	rest := []rune(string(text[at:min(len(text), at+4*column)]))
	return min(len(text), at+len(string(rest[:min(len(rest), column-1)])))
}

// blockEnd returns the end of a block mapping at an offset and column. It ends before a line
// with less indentation.
func blockEnd(text []byte, start, column int) int {
	end := start
	for at := start; at < len(text); {
		length := bytes.IndexByte(text[at:], '\n') + 1
		if length == 0 {
			length = len(text) - at
		}
		line := string(text[at : at+length])
		trimmed := strings.TrimSpace(line)
		indent := len(line) - len(strings.TrimLeft(line, " "))
		isContent := trimmed != "" && !strings.HasPrefix(trimmed, "#")
		if at > start && isContent && (indent < column-1 || column == 1 && (strings.HasPrefix(line, "---") || strings.HasPrefix(line, "..."))) {
			break
		}
		at += length
		if isContent {
			end = at
		}
	}
	return end
}

// matchBracket returns the end of a flow mapping, or 0.
func matchBracket(text []byte, start int) int {
	depth, quote := 0, byte(0)
	for i := start; i < len(text); i++ {
		switch c := text[i]; {
		case quote == '"' && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'' && i > 0 && bytes.IndexByte([]byte(" \t\n[{,:"), text[i-1]) >= 0:
			quote = c
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// searchString searches a string.
func (f *finder) searchString(text []byte, n *yaml.Node, where string, depth int) {
	if depth >= maxDepth || len(n.Value) < len(Kind) {
		return
	}
	if n.Style&yaml.LiteralStyle != 0 && mentionPattern.MatchString(n.Value) {
		f.searchLines(literalText(text, n), n, where, depth)
		return
	}
	content := []byte(n.Value)
	if decoded := decode(n.Value); decoded != nil {
		content = decoded
	}
	if !mentionPattern.Match(content) {
		return
	}
	// The lines of the content are not lines of the file.
	inner := &finder{}
	inner.searchLines(content, n, where, depth)
	for _, c := range inner.found {
		c.Line, c.Column, c.Exact = n.Line, n.Column, false
		f.add(c)
	}
}

// searchLines searches the content of a string. It is a configuration, or contains one.
func (f *finder) searchLines(content []byte, n *yaml.Node, where string, depth int) {
	docs := parseDocuments(content)
	if len(docs) > 0 && isConfig(docs[0]) {
		f.add(Config{Where: where, Line: docs[0].Line, Column: n.Column, Text: content, Exact: true, IsText: true})
		return
	}
	before := len(f.found)
	inner := &finder{nodes: f.nodes}
	inner.search(content, where, depth+1)
	for _, c := range inner.found {
		f.add(c)
	}
	if len(f.found) == before && len(docs) > 0 && member(docs[0], "providers") != nil && member(docs[0], "apiVersion") != nil {
		f.add(Config{Where: where, Line: docs[0].Line, Column: n.Column, Text: content, Exact: true, IsText: true})
	}
}

// literalText returns the content of a literal block scalar, with the same lines and columns
// as in the file.
func literalText(text []byte, n *yaml.Node) []byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	out := bytes.Repeat([]byte("\n"), n.Line)
	count := strings.Count(strings.TrimRight(n.Value, "\n"), "\n") + 1
	body := bytes.Join(lines[min(n.Line, len(lines)):min(n.Line+count, len(lines))], nil)
	if regexp.MustCompile(`(?m)^\s+(---|\.\.\.)`).Match(body) {
		return append(out, n.Value...) // with indentation, this would not separate documents
	}
	return append(out, body...)
}

// decode decodes a data URL, base64 and gzip. It returns nil for other texts.
func decode(value string) []byte {
	data := []byte(nil)
	if rest, ok := strings.CutPrefix(value, "data:"); ok {
		head, body, ok := strings.Cut(rest, ",")
		if !ok {
			return nil
		}
		if strings.HasSuffix(head, ";base64") {
			value = body
		} else if plain, err := url.PathUnescape(body); err == nil {
			data = []byte(plain)
		}
	}
	if data == nil {
		var err error
		compact := strings.Join(strings.Fields(value), "")
		if data, err = base64.StdEncoding.DecodeString(compact); err != nil {
			return nil
		}
	}
	if r, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
		data, err = io.ReadAll(io.LimitReader(r, maxSize+1))
		if err != nil || len(data) > maxSize {
			return nil // not a part of a configuration
		}
	}
	return data
}

// These patterns find the parts of user data and scripts.
var (
	heredocPattern  = regexp.MustCompile(`<<[-~]?[ \t]*["']?([A-Za-z_]\w*)["']?`)
	boundaryPattern = regexp.MustCompile(`(?im)^Content-Type:\s*multipart/[^\n]*boundary="?([^"\s;]+)"?`)
)

// searchParts searches the here-documents of a shell script or Terraform file, and the parts of a MIME
// message.
func (f *finder) searchParts(text []byte, where string, depth int) {
	if depth >= maxDepth || !mentionPattern.Match(text) {
		return
	}
	boundary := ""
	if m := boundaryPattern.FindSubmatch(text); m != nil {
		boundary = "--" + string(m[1])
	}
	lines := strings.SplitAfter(string(text), "\n")
	for i := 0; i < len(lines); i++ {
		end := -1
		if m := heredocPattern.FindStringSubmatch(lines[i]); m != nil {
			end = slices.IndexFunc(lines[i+1:], func(l string) bool { return strings.TrimSpace(l) == m[1] })
		} else if boundary != "" && strings.TrimSpace(lines[i]) == boundary {
			if blank := slices.IndexFunc(lines[i:], func(l string) bool { return strings.TrimSpace(l) == "" }); blank > 0 {
				i += blank
			}
			end = slices.IndexFunc(lines[i+1:], func(l string) bool { return strings.HasPrefix(l, boundary) })
		}
		if end < 0 {
			continue
		}
		body := strings.Join(lines[i+1:i+1+end], "")
		if mentionPattern.MatchString(body) {
			at := strings.TrimPrefix(fmt.Sprintf("%s, line %d", where, i+2), ", ")
			f.searchLines(append(bytes.Repeat([]byte("\n"), i+1), body...), &yaml.Node{Line: i + 2, Column: 1}, at, depth)
		}
		i += end
	}
}
