// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package lint

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	yaml3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
)

// maxManifest bounds a document with its aliases written out, in bytes.
const maxManifest = 16 << 20

// SecretManifest checks the Secrets of a manifest, YAML or JSON, of one or
// several documents and lists of objects. Other objects are passed over.
func SecretManifest(name string, data []byte, now time.Time) *Credentials {
	m := manifest{name: name, now: now}
	line := 0
	for _, document := range documents(data) {
		m.read(document, line)
		line += bytes.Count(document, []byte("\n"))
	}
	c := checkSecrets(m.secrets)
	c.Findings = append(m.broken, c.Findings...)
	c.Refused = c.Refused || len(m.broken) > 0
	return c
}

// manifestRules has the rule for documents that are not read; see refuse.
func manifestRules() []rule[*manifest] {
	return []rule[*manifest]{{"secret-yaml", finding.SeverityError, nil}}
}

var documentMark = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^---([ \t\r].*)?$`) })

// documents cuts a file before the lines that begin its documents, and behind each
// of several objects of JSON.
func documents(data []byte) (list [][]byte) {
	start := 0
	for _, at := range documentMark().FindAllIndex(data, -1) {
		if at[0] > start {
			list = append(list, objects(data[start:at[0]])...)
		}
		start = at[0]
	}
	return append(list, objects(data[start:])...)
}

// objects cuts a document that is a stream of JSON, as kubectl reads them too: the
// parser of YAML stops behind the first.
func objects(document []byte) (list [][]byte) {
	for bytes.HasPrefix(bytes.TrimSpace(document), []byte("{")) {
		dec := json.NewDecoder(bytes.NewReader(document))
		var raw json.RawMessage
		if dec.Decode(&raw) != nil {
			break // YAML, or broken
		}
		end := dec.InputOffset()
		if len(bytes.TrimSpace(document[end:])) == 0 {
			break
		}
		list, document = append(list, document[:end]), document[end:]
	}
	return append(list, document)
}

// manifest collects the Secrets of a file.
type manifest struct {
	name    string
	now     time.Time
	secrets []*secret
	broken  []finding.Finding
}

// object is what is read of an object.
type object struct {
	Kind       string         `json:"kind"`
	Type       string         `json:"type"`
	Data       map[string]any `json:"data"`
	StringData map[string]any `json:"stringData"`
	Items      []object       `json:"items"`
}

// read reads a document that begins behind a number of lines.
func (m *manifest) read(document []byte, before int) {
	if !secretLook().Match(document) {
		if wide := withoutNUL(document); len(wide) < len(document) && secretLook().Match(wide) && len(m.broken) < maxRemarks {
			m.broken = append(m.broken, m.unread(before+1, "the file is UTF-16; save it as UTF-8"))
		}
		return
	}
	root, err := parseYAML(document)
	if err != nil || len(root.Content) == 0 {
		root.Content = []*yaml3.Node{{}} // no places
		if bytes.ContainsRune(document, '&') {
			m.refuse(document, before)
			return
		}
	}
	var o object
	if expanded(root.Content[0], map[*yaml3.Node]int{}) > maxManifest || yaml.Unmarshal(document, &o) != nil { // the error would quote the document
		m.refuse(document, before)
		return
	}
	p := &page{name: m.name, text: bytes.Split(document, []byte("\n")), before: before}
	m.add(p, o, root.Content[0])
}

func (m *manifest) refuse(document []byte, before int) {
	line, why := templateLine(document)
	if line == 0 {
		line, why = yamlLine(document)
	}
	if len(m.broken) < maxRemarks {
		m.broken = append(m.broken, m.unread(before+line, why))
	}
}

func (m *manifest) unread(line int, why string) finding.Finding {
	rule := manifestRules()[0]
	return finding.Finding{Rule: rule.name, Severity: rule.severity, File: m.name, Line: line, Message: "cannot read this Secret: " + why}
}

// templateLine is the line on which a document has a template's braces, such as
// Helm's, and what that means; 0 if none has.
func templateLine(document []byte) (line int, why string) {
	before, _, found := bytes.Cut(document, []byte("{{"))
	if !found || bytes.HasPrefix(bytes.TrimSpace(document), []byte("{{\"")) {
		return 0, ""
	}
	return 1 + bytes.Count(before, []byte("\n")), "this is an unrendered template ({{ … }}); check the output of helm template"
}

// expanded is the size of a document with its aliases written out, as the
// deciding parser does; of one that holds itself it is too large.
func expanded(n *yaml3.Node, known map[*yaml3.Node]int) int {
	if size, ok := known[n]; ok {
		return size
	}
	known[n] = 2 * maxManifest // while it is under way
	size := len(n.Value) + 1
	if n.Kind == yaml3.AliasNode {
		size += expanded(n.Alias, known)
	}
	for _, c := range n.Content {
		size = min(size+expanded(c, known), 2*maxManifest)
	}
	known[n] = size
	return size
}

// parseYAML parses a document for its places.
func parseYAML(document []byte) (root yaml3.Node, err error) {
	// A document that the deciding parser took must not fail here.
	defer func() {
		if recover() != nil {
			err = errors.New("not YAML")
		}
	}()
	err = yaml3.Unmarshal(document, &root)
	return root, err
}

// yamlLine is the line of a document at which it stops being YAML, and what is
// there. The parser is not exact about lines.
func yamlLine(document []byte) (line int, why string) {
	_, err := parseYAML(document)
	if err == nil {
		return 1, "a field has the wrong type, or its YAML aliases expand to too much data"
	}
	line = 1
	_, _ = fmt.Sscanf(err.Error(), "yaml: line %d:", &line)
	lines := bytes.Split(document, []byte("\n"))
	line = max(line, 1)
	for n := line; n <= min(line+1, len(lines)); n++ {
		text := lines[n-1]
		if bytes.ContainsRune(text[:len(text)-len(bytes.TrimLeft(text, " \t"))], '\t') {
			return n, "the line is indented with a tab, but YAML requires spaces"
		}
	}
	return line, "invalid YAML on this line or on a line above"
}

func (m *manifest) add(p *page, o object, n *yaml3.Node) {
	for i, item := range o.Items {
		if o.Kind == "SecretList" {
			item.Kind = "Secret" // they have none of their own
		}
		m.add(p, item, child(child(n, "items"), i))
	}
	if o.Kind != "Secret" {
		return
	}
	s := &secret{kind: o.Type, now: m.now, values: map[string]*datum{}, at: p.at(n, "")}
	s.typeAt = s.at
	if t := child(n, "type"); t != nil {
		s.typeAt = p.at(t, "type")
	}
	for key, value := range o.Data {
		s.values[key] = p.encoded(key, value, child(child(n, "data"), key))
	}
	for key, value := range o.StringData {
		_, hides := s.values[key]
		s.values[key] = p.plain(key, value, child(child(n, "stringData"), key))
		s.values[key].hides = hides
	}
	m.secrets = append(m.secrets, s)
}

// child returns a member or item of a node, nil if there is none.
func child(n *yaml3.Node, e any) *yaml3.Node {
	if n != nil && n.Kind == yaml3.AliasNode {
		n = n.Alias
	}
	switch e := e.(type) {
	case int:
		if n != nil && n.Kind == yaml3.SequenceNode && e < len(n.Content) {
			return n.Content[e]
		}
	case string:
		for i := 0; n != nil && n.Kind == yaml3.MappingNode && i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == e {
				return n.Content[i+1]
			}
		}
	}
	return nil
}

// page is a document in its file.
type page struct {
	name   string
	text   [][]byte // lines
	before int      // lines of the file before them
}

func (p *page) at(n *yaml3.Node, path string) config.Position {
	if n == nil || n.Line == 0 {
		return config.Position{File: p.name, Line: p.before + 1, Path: path}
	}
	return config.Position{File: p.name, Line: p.before + n.Line, Column: n.Column, Path: path}
}

// unfilled is the problem of a value that is a template's.
const unfilled = "this is an unrendered template"

// encoded is a value of data.
func (p *page) encoded(key string, value any, n *yaml3.Node) *datum {
	path := "data[" + ShowName(key) + "]"
	v := &datum{at: p.at(n, path)}
	text, ok := value.(string)
	if !ok && value != nil {
		v.problem = "the value is not a string"
		return v
	}
	decoded, err := base64.StdEncoding.DecodeString(text)
	switch {
	case err == nil:
		v.data = decoded
	case strings.HasPrefix(strings.TrimSpace(text), "{{"):
		v.problem = unfilled
	case strings.HasPrefix(strings.TrimSpace(text), "{"):
		v.problem = "the value is JSON, but data requires base64"
	default:
		v.problem = "it is not base64"
	}
	v.place = inside(v.at, path)
	return v
}

// plain is a value of stringData.
func (p *page) plain(key string, value any, n *yaml3.Node) *datum {
	path := "stringData[" + ShowName(key) + "]"
	v := &datum{at: p.at(n, path), text: true}
	text, ok := value.(string)
	if !ok && value != nil {
		v.problem = "the value is not a string"
		return v
	}
	v.data = []byte(text)
	v.place = p.placer(v.at, path, v.data, n)
	return v
}

// inside is the place of something in a value that is not to be seen in the
// file: that of the value.
func inside(at config.Position, path string) placer {
	return func(line, column int, inner string) (config.Position, string) {
		where := at
		if inner != "" {
			where.Path = path + ": " + inner
		}
		return where, fmt.Sprintf(" (line %d, column %d of the decoded value)", line, column)
	}
}

// placer finds the place of something in a text that stands in the file as it
// is: in a block, or on one line.
func (p *page) placer(at config.Position, path string, data []byte, n *yaml3.Node) placer {
	lines := bytes.Split(data, []byte("\n"))
	hidden := inside(at, path)
	return func(line, column int, inner string) (config.Position, string) {
		where, beside := hidden(line, column, inner)
		if n == nil || n.Line == 0 || line > len(lines) {
			return where, beside
		}
		number := n.Line - 1 // of the line, from 0
		if n.Style == yaml3.LiteralStyle {
			number += line
		} else if len(lines) > 1 {
			return where, beside
		}
		if number >= len(p.text) {
			return where, beside
		}
		i := bytes.LastIndex(p.text[number], lines[line-1])
		if i < 0 {
			return where, beside
		}
		where.Line, where.Column = p.before+number+1, i+column
		return where, ""
	}
}

// ShowName quotes a key of a Secret's data if it is one of those that such keys
// have. Somebody who swaps key and value puts a password there.
func ShowName(key string) string {
	lower := strings.ToLower(key)
	known := slices.ContainsFunc([]string{"docker", "config", "json", "yaml"}, func(part string) bool { return strings.Contains(lower, part) })
	if len(key) > 64 || strings.Trim(lower, "abcdefghijklmnopqrstuvwxyz.-_") != "" ||
		!known && !slices.Contains([]string{"username", "password", "token", "auth", "ca.crt", "tls.crt", "tls.key", "ssh-privatekey", "namespace"}, key) {
		return "…"
	}
	return fmt.Sprintf("%q", key)
}
