// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	yaml3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/textedit"
	"github.com/regcred/regcred/lint/internal/rules"
)

// maxManifestSize is the maximum size in bytes of a document with all its aliases expanded.
const maxManifestSize = 16 << 20

func checkManifest(name string, data []byte, now time.Time) *Result {
	m := secretManifest{name: name, now: now}
	line := 0
	for _, document := range splitDocuments(data) {
		m.addDocument(document, line)
		line += bytes.Count(document, []byte("\n"))
	}
	var unreadable rules.Collector
	rules.Apply(&unreadable, manifestRules(), &m, nil)
	r := checkSecrets(m.secrets)
	r.Findings = append(unreadable.SortedFindings(), r.Findings...)
	r.Rejected = r.Rejected || len(m.unreadable) > 0
	r.Unchecked = cmp.Or(r.Unchecked, m.limit)
	return r
}

func manifestRules() []rules.Rule[*secretManifest] {
	return []rules.Rule[*secretManifest]{
		rules.ErrorRule("secret-invalid", func(m *secretManifest) []rules.Result { return m.unreadable }),
	}
}

var documentMarker = rules.LazyRegexp(`(?m)^---([ \t\r].*)?$`)

// splitDocuments splits a file into its YAML documents, and a stream of JSON objects into
// its objects.
func splitDocuments(data []byte) (list [][]byte) {
	start := 0
	for _, at := range documentMarker().FindAllIndex(data, -1) {
		if at[0] > start {
			list = append(list, splitJSONObjects(data[start:at[0]])...)
		}
		start = at[0]
	}
	return append(list, splitJSONObjects(data[start:])...)
}

// splitJSONObjects splits a stream of JSON objects as kubectl does. A YAML parser would read
// only the first object.
func splitJSONObjects(document []byte) (list [][]byte) {
	for bytes.HasPrefix(bytes.TrimSpace(document), []byte("{")) {
		dec := json.NewDecoder(bytes.NewReader(document))
		var raw json.RawMessage
		if dec.Decode(&raw) != nil {
			break // YAML, or invalid JSON
		}
		end := dec.InputOffset()
		if len(bytes.TrimSpace(document[end:])) == 0 {
			break
		}
		list, document = append(list, document[:end]), document[end:]
	}
	return append(list, document)
}

// secretManifest collects the Secrets of a file.
type secretManifest struct {
	name       string
	now        time.Time
	secrets    []*secret
	unreadable []rules.Result // results for documents that cannot be read
	limit      error          // the limit of regcred that a document exceeds, or nil
}

// kubeObject contains the fields of a Kubernetes object that the checks use.
type kubeObject struct {
	Kind       string         `json:"kind"`
	Type       string         `json:"type"`
	Data       map[string]any `json:"data"`
	StringData map[string]any `json:"stringData"`
	Items      []kubeObject   `json:"items"`
}

// addDocument adds the Secrets of a document. before is the number of lines in the file before the
// document.
func (m *secretManifest) addDocument(document []byte, before int) {
	if !secretPattern().Match(document) {
		if wide := removeNULs(document); len(wide) < len(document) && secretPattern().Match(wide) {
			m.addUnreadable(before+1, "the file is UTF-16; save it as UTF-8")
		}
		return
	}
	top, err := textedit.ParseYAML(document)
	unparsed := err != nil || top == nil // without the YAML nodes, positions and the expanded size are unknown
	if unparsed {
		top = &yaml3.Node{}
	}
	var o kubeObject
	if textedit.ExpandedSize(top, 1, maxManifestSize) > maxManifestSize {
		m.limit = &regularfile.LimitError{Msg: fmt.Sprintf("line %d: the YAML aliases in this Secret expand to more than %d MiB", before+1, maxManifestSize>>20)}
		return
	}
	if unparsed && bytes.ContainsRune(document, '&') ||
		yaml.Unmarshal(document, &o) != nil { // ignore the error, because it quotes the document
		line, reason := explainUnreadable(document)
		m.addUnreadable(before+line, reason)
		return
	}
	p := &yamlDocument{name: m.name, lines: bytes.Split(document, []byte("\n")), before: before}
	m.addSecret(p, o, top)
}

func (m *secretManifest) addUnreadable(line int, reason string) {
	at := config.Position{File: m.name, Line: line}
	m.unreadable = append(m.unreadable, rules.NewPositionResult(at, "", "cannot read this Secret: %s", reason)...)
}

// explainUnreadable returns why a document cannot be read, and the line of the cause. The cause can
// be a template action, such as Helm's, or a YAML syntax error. The YAML parser's line can be one
// too low, so the next line is checked for tabs as well.
func explainUnreadable(document []byte) (line int, reason string) {
	before, _, isTemplate := bytes.Cut(document, []byte("{{"))
	if isTemplate && !bytes.HasPrefix(bytes.TrimSpace(document), []byte("{{\"")) {
		return 1 + bytes.Count(before, []byte("\n")), "this is an unrendered template ({{ … }}); check the output of helm template"
	}
	_, err := textedit.ParseYAML(document)
	if err == nil {
		return 1, "a field has the wrong type"
	}
	_, _ = fmt.Sscanf(err.Error(), "yaml: line %d:", &line)
	line = max(line, 1)
	lines := bytes.Split(document, []byte("\n"))
	for n := line; n <= min(line+1, len(lines)); n++ {
		text := lines[n-1]
		if bytes.ContainsRune(text[:len(text)-len(bytes.TrimLeft(text, " \t"))], '\t') {
			return n, "the line is indented with a tab, but YAML requires spaces"
		}
	}
	return line, "invalid YAML on this line or on a line above"
}

func (m *secretManifest) addSecret(p *yamlDocument, o kubeObject, n *yaml3.Node) {
	for i, item := range o.Items {
		if o.Kind == "SecretList" {
			item.Kind = "Secret" // items of a SecretList omit the kind
		}
		m.addSecret(p, item, textedit.SequenceItem(textedit.MappingValue(n, "items"), i))
	}
	if o.Kind != "Secret" {
		return
	}
	s := &secret{kind: o.Type, now: m.now, values: map[string]*secretValue{}, position: p.position(n, "")}
	s.typePosition = s.position
	if t := textedit.MappingValue(n, "type"); t != nil {
		s.typePosition = p.position(t, "type")
	}
	for key, value := range o.Data {
		s.values[key] = p.readValue("data", key, value, n)
	}
	for key, value := range o.StringData {
		_, inData := s.values[key]
		s.values[key] = p.readValue("stringData", key, value, n)
		s.values[key].overridesData = inData
	}
	m.secrets = append(m.secrets, s)
}

type yamlDocument struct {
	name   string
	lines  [][]byte
	before int // number of lines in the file before the document
}

func (p *yamlDocument) position(n *yaml3.Node, path string) config.Position {
	if n == nil || n.Line == 0 {
		return config.Position{File: p.name, Line: p.before + 1, Path: path}
	}
	return config.Position{File: p.name, Line: p.before + n.Line, Column: n.Column, Path: path}
}

// unrenderedTemplate is the problem reported for a value that contains a template action.
const unrenderedTemplate = "this is an unrendered template"

func (p *yamlDocument) readValue(field, key string, value any, object *yaml3.Node) *secretValue {
	n := textedit.MappingValue(textedit.MappingValue(object, field), key)
	path := field + "[" + excerpt.QuoteSecretKey(key) + "]"
	v := &secretValue{position: p.position(n, path)}
	v.locate = valueLocator(v.position, path)
	text, ok := value.(string)
	switch {
	case !ok && value != nil:
		v.problem = "the value is not a string"
	case field == "stringData":
		v.data = []byte(text)
		v.locate = p.textLocator(v.position, path, v.data, n)
	default:
		v.data, v.problem = decodeData(text)
	}
	return v
}

func decodeData(text string) (decoded []byte, problem string) {
	decoded, err := base64.StdEncoding.DecodeString(text)
	switch {
	case err == nil:
		return decoded, ""
	case strings.HasPrefix(strings.TrimSpace(text), "{{"):
		return nil, unrenderedTemplate
	case strings.HasPrefix(strings.TrimSpace(text), "{"):
		return nil, "the value is JSON, but data requires base64"
	}
	return nil, "it is not base64"
}

// valueLocator returns a positionMapper for a base64-encoded value. It maps each position to the
// position of the whole value, and its note contains the position in the decoded text.
func valueLocator(at config.Position, path string) positionMapper {
	return func(line, column int, inner string) (config.Position, string) {
		where := at
		if inner != "" {
			where.Path = path + ": " + inner
		}
		return where, fmt.Sprintf(" (line %d, column %d of the decoded value)", line, column)
	}
}

// textLocator returns a positionMapper for a stringData value. Its positions are exact in a literal
// block and in a value on a single line.
func (p *yamlDocument) textLocator(at config.Position, path string, data []byte, n *yaml3.Node) positionMapper {
	lines := bytes.Split(data, []byte("\n"))
	inexact := valueLocator(at, path)
	return func(line, column int, inner string) (config.Position, string) {
		where, note := inexact(line, column, inner)
		if n == nil || n.Line == 0 || line > len(lines) {
			return where, note
		}
		number := n.Line - 1 // line in the document, from 0
		if n.Style == yaml3.LiteralStyle {
			number += line
		} else if len(lines) > 1 {
			return where, note
		}
		if number >= len(p.lines) {
			return where, note
		}
		i := bytes.LastIndex(p.lines[number], lines[line-1])
		if i < 0 {
			return where, note
		}
		where.Line, where.Column = p.before+number+1, i+column
		return where, ""
	}
}
