// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"

	"github.com/regcred/regcred/internal/excerpt"
)

// fieldError gives a problem its place.
func (s *source) fieldError(p problem) *FieldError {
	at := s.place(p.path)
	if p.key {
		at = s.keyPlace(p.path)
	}
	if p.hide {
		at.Path = p.path[:len(p.path)-1].String()
	}
	return &FieldError{File: at.File, Line: at.Line, Column: at.Column, Path: at.Path, Value: excerpt.Value(p.value), Msg: p.msg}
}

// diagnosis walks a document that the decoder has refused and finds out why.
// It sees the same JSON as the decoder, and says what is wrong in words of its
// own: the decoder stops at the first error, knows no positions and quotes
// values.
type diagnosis struct {
	src   *source
	shape *shape // of the document
	list  problems
}

// diagnose returns everything that is wrong with a document. The cause is the
// decoder's error, if it was asked; its text is not used.
func (s *source) diagnose(doc []byte, meta typeMeta, cause error) error {
	if isSyntax, offset := kjson.SyntaxErrorOffset(cause); isSyntax {
		return s.jsonError(offset, cause)
	}
	var value any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(doc, &value); err != nil {
		return &FieldError{File: s.name, Msg: "cannot be decoded"}
	}
	d := &diagnosis{src: s, shape: documentShape(meta)}
	d.document(value, meta)
	if len(d.list.errs) == 0 {
		d.list.add(&FieldError{File: s.name, Msg: "cannot be decoded as what its kind says"})
	}
	return d.list.join()
}

func (d *diagnosis) document(value any, meta typeMeta) {
	if value == nil {
		d.list.add(&FieldError{File: d.src.name, Msg: "is empty: write a " + Kind + " in " + V1})
		return
	}
	wrongType := meta.problem()
	if _, ok := value.(map[string]any); ok && wrongType != nil {
		d.report(*wrongType)
		if meta.Kind != "" && meta.Kind != Kind && !meta.predecessor() {
			return // Its fields are those of something else.
		}
	}
	d.value(value, d.shape, nil)
	if root := d.src.root(); root != nil {
		d.duplicates(root, nil)
	}
}

func (d *diagnosis) report(p problem) {
	if !d.list.full() {
		d.list.add(d.src.fieldError(p))
	}
}

// value compares a value with what it should be. null fits everything.
func (d *diagnosis) value(v any, want *shape, at FieldPath) {
	if v == nil || d.list.full() {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		if want.fields != nil || want.values != nil {
			d.object(v, want, at)
			return
		}
	case []any:
		if want.elem != nil {
			for i, e := range v {
				d.value(e, want.elem, at.with(i))
			}
			return
		}
	case string:
		if want.scalar == "string" {
			d.oneOf(v, want, at)
			return
		}
		if want.scalar == "duration" {
			d.duration(v, at)
			return
		}
	case bool:
		if want.scalar == "boolean" {
			return
		}
	}
	d.mismatch(v, want, at)
}

func (d *diagnosis) object(v map[string]any, want *shape, at FieldPath) {
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if d.list.full() {
			return
		}
		if field := want.field(name); field != nil {
			d.value(v[name], field, at.with(name))
			continue
		}
		d.unknown(name, want, at)
	}
}

// oneOf checks a string that may not be any.
func (d *diagnosis) oneOf(s string, want *shape, at FieldPath) {
	if want.oneOf == nil || slices.Contains(want.oneOf, s) {
		return
	}
	words := slices.DeleteFunc(slices.Clone(want.oneOf), func(s string) bool { return s == "" })
	d.report(problem{path: at, value: s, msg: "must be " + strings.Join(words, " or ") + ", or be left out"})
}

func (d *diagnosis) duration(s string, at FieldPath) {
	if _, err := time.ParseDuration(s); err != nil {
		d.report(problem{path: at, value: s, msg: `not a duration: write a number with a unit, such as "12h", "10m" or "0s"`})
	}
}

// mismatch reports a value of the wrong type.
func (d *diagnosis) mismatch(v any, want *shape, at FieldPath) {
	msg := fmt.Sprintf("is %s, but must be %s", describe(v), want.describe())
	var value string
	switch v.(type) {
	case map[string]any, []any:
	default:
		if !want.secret {
			value = fmt.Sprint(v)
		}
		if want.scalar == "string" {
			msg += ": quote it"
		}
	}
	if _, ok := v.(bool); ok {
		msg += " (in YAML the words yes, no, on and off are booleans)"
	}
	d.report(problem{path: at, hide: d.safe(at) < len(at), value: value, msg: msg})
}

func describe(v any) string {
	switch v.(type) {
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	}
	return "a number"
}

// unknown reports a field that does not exist, by name where that is safe.
func (d *diagnosis) unknown(name string, want *shape, at FieldPath) {
	hint := want.hint(name)
	msg := "unknown field"
	if hint != "" {
		msg += ": " + hint
	}
	if hint == "" && (want.secret || !isFieldName(name)) {
		msg := "has an unknown field; it may have " + list(slices.Sorted(maps.Keys(want.fields)))
		if want.others != "" {
			msg = "has an unknown field: " + want.others
		}
		d.report(problem{path: at.with(name), key: true, hide: true, msg: msg})
		return
	}
	d.report(problem{path: at.with(name), key: true, msg: msg})
}

// isFieldName reports whether a text looks like the name of a field. Anything
// else may be a value that broken quoting has put where a name belongs.
func isFieldName(s string) bool {
	return len(s) <= 32 && !strings.ContainsFunc(s, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r)
	})
}

// duplicates reports fields that are set twice in one mapping, or in it and
// in one that is merged into it.
func (d *diagnosis) duplicates(n *yaml.Node, at FieldPath) {
	if d.list.full() || len(at) > maxNodeDepth {
		return
	}
	switch n.Kind {
	case yaml.SequenceNode:
		for i, child := range n.Content {
			d.duplicates(child, at.with(i))
		}
	case yaml.MappingNode:
		seen := map[string]bool{}
		for i := 0; i+1 < len(n.Content) && !d.list.full(); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			if isMergeKey(key) {
				continue
			}
			if seen[key.Value] {
				d.duplicate(key, at)
			}
			seen[key.Value] = true
			d.duplicates(value, at.with(key.Value))
		}
		d.mergedTwice(n, seen, at)
	}
}

// mergedTwice reports merge keys that bring a field which is set already.
func (d *diagnosis) mergedTwice(n *yaml.Node, seen map[string]bool, at FieldPath) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if !isMergeKey(n.Content[i]) {
			continue
		}
		for _, m := range merged(n.Content[i+1]) {
			m = deref(m)
			if m == nil || m.Kind != yaml.MappingNode {
				continue
			}
			for j := 0; j+1 < len(m.Content) && !d.list.full(); j += 2 {
				key := m.Content[j].Value
				if seen[key] {
					pos := d.src.locate(Position{}, n.Content[i])
					d.list.add(&FieldError{File: d.src.name, Line: pos.Line, Column: pos.Column, Path: at[:d.safe(at)].String(),
						Msg: "a field is set here and merged in with <<, which counts as setting it twice: write it once"})
				}
				seen[key] = true
			}
		}
	}
}

func (d *diagnosis) duplicate(key *yaml.Node, at FieldPath) {
	p := at.with(key.Value)
	pos := d.src.locate(Position{}, key)
	d.list.add(&FieldError{File: d.src.name, Line: pos.Line, Column: pos.Column, Path: p[:d.safe(p)].String(),
		Msg: "a field is set twice: remove one of the two"})
}

// safe returns how much of a path may be shown: as far as its keys are names
// of fields that exist, and not values gone astray.
func (d *diagnosis) safe(p FieldPath) int {
	s := d.shape
	for i, e := range p {
		switch name, isKey := e.(string); {
		case !isKey:
			s = s.elem
		case s.values != nil && !isVariableName(name):
			s = nil
		default:
			s = s.field(name)
		}
		if s == nil {
			return i
		}
	}
	return len(p)
}
