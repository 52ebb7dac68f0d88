// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"

	"github.com/regcred/regcred/internal/diagnose"
	"github.com/regcred/regcred/internal/textedit"
)

// diagnosis finds all errors in a document that the decoder rejected. It reads the same JSON as
// the decoder. The decoder's own errors are not usable: they stop at the first problem, have no
// positions, and quote values.
type diagnosis struct {
	src    *sourceFile
	errors fieldErrors
}

// partsValidator adds validation errors to a diagnosis: see [diagnosis.validateDecodableParts].
type partsValidator func(d *diagnosis, value any, want *shape)

// diagnoseDocument returns all errors of a document. cause is the decoder's error for the kind
// and version, if any; its text is not used.
func (s *sourceFile) diagnoseDocument(doc []byte, meta typeMeta, want *shape, cause error, more partsValidator) error {
	if isSyntax, offset := kjson.SyntaxErrorOffset(cause); isSyntax {
		return s.jsonError(offset, cause)
	}
	var value any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(doc, &value); err != nil {
		return &FieldError{File: s.name, Msg: "cannot be decoded"}
	}
	if _, next := textedit.KubeletDocument(s.data()); value == nil && next > 0 {
		return &FieldError{File: s.name, Line: next, Msg: "the first YAML document is empty, and the kubelet reads only the first one: remove everything up to and including this ---"}
	} else if value == nil {
		return &FieldError{File: s.name, Msg: "is empty: add a " + Kind + " of version " + V1}
	}
	d := &diagnosis{src: s}
	d.checkDocument(value, meta, want, more)
	if len(d.errors.errs) == 0 {
		d.errors.add(&FieldError{File: s.name, Msg: "is not valid for its kind and version"})
	}
	return d.errors.joinSorted()
}

func (d *diagnosis) checkDocument(value any, meta typeMeta, want *shape, more partsValidator) {
	fields, isMapping := value.(map[string]any)
	switch {
	case isMapping && meta.Kind == "" && fields["providers"] == nil && diagnose.ExplainDocument(fields) != "":
		d.errors.add(&FieldError{File: d.src.name, Msg: "this is " + diagnose.ExplainDocument(fields)})
		return
	case !isMapping && diagnose.IsTOML(d.src.text()):
		d.errors.add(&FieldError{File: d.src.name, Msg: "this looks like TOML, such as a container runtime configuration: a " + Kind + " is YAML or JSON"})
		return
	case isMapping:
		for _, wrong := range meta.allErrors() {
			d.addError(fieldPath{wrong.field}, wrong.value, wrong.msg)
		}
		if meta.firstError() != nil && meta.Kind != "" && !strings.EqualFold(meta.Kind, Kind) && !meta.isOutOfTree() {
			return // a document of another kind, so its fields are not checked
		}
	}
	d.checkValue(value, want, nil)
	if root := d.src.root(); root != nil {
		d.findDuplicates(root, want, nil)
	}
	if !meta.isOutOfTree() {
		more(d, value, want)
	}
}

func (d *diagnosis) addError(at fieldPath, value, msg string) {
	d.errors.add(d.src.valuePosition(at).newFieldError(value, msg))
}

// checkValue compares a value with its expected shape. null is always valid.
func (d *diagnosis) checkValue(v any, want *shape, at fieldPath) {
	if v == nil || d.errors.isFull() {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		if want.fields != nil || want.values != nil {
			d.checkObject(v, want, at)
			return
		}
	case []any:
		if want.elem != nil {
			for i, e := range v {
				d.checkValue(e, want.elem, at.append(i))
			}
			return
		}
	case string:
		if want.checkText != nil {
			if msg := want.checkText(v); msg != "" {
				d.addError(at, v, msg)
			}
			return
		}
	case bool:
		if want.noun == nounBoolean {
			return
		}
	}
	d.reportTypeMismatch(v, want, at)
}

func (d *diagnosis) checkObject(v map[string]any, want *shape, at fieldPath) {
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if d.errors.isFull() {
			return
		}
		if field, key := want.findField(name); field != nil {
			d.checkValue(v[name], field, at.append(key))
			continue
		}
		d.reportUnknownField(name, want, at)
	}
}

func (d *diagnosis) reportTypeMismatch(v any, want *shape, at fieldPath) {
	msg := fmt.Sprintf("is %s, but must be %s", describeType(v), want.noun)
	var value string
	switch v.(type) {
	case map[string]any, []any:
		if want.elem != nil && want.values == nil {
			msg += ": put a dash before " + want.elem.missingDashText()
		}
	default:
		if want.elem != nil && want.values == nil {
			msg += ": put a dash before each item"
		}
		if !want.secret {
			value = fmt.Sprint(v)
		}
		if want.noun == nounString {
			msg += ": quote it"
		}
	}
	if _, ok := v.(bool); ok {
		msg += " (YAML parses yes, no, on and off as booleans)"
	}
	d.addError(at, value, msg)
}

// missingDashText describes which part of the document needs a dash, for the error about a
// mapping that must be a list. s is the shape of the list's items.
func (s *shape) missingDashText() string {
	if s.secret && s.fields != nil {
		return "each variable, with separate name and value fields"
	}
	return "its first field"
}

func describeType(v any) string {
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

// reportUnknownField reports an unknown field. It hides the name if the name may be a secret.
func (d *diagnosis) reportUnknownField(name string, want *shape, at fieldPath) {
	var key any = name
	msg, hint := "unknown field", diagnose.ExplainUnknownField(name, want.fieldNames())
	known := "; the known fields are " + joinWithAnd(want.fieldNames())
	switch {
	case hint != "":
		msg += ": " + hint
	case !want.secret && isFieldName(name):
		msg += known
	case want.unknownFieldMessage != "":
		key, msg = hiddenName(name), "has an unknown field: "+want.unknownFieldMessage
	default:
		key, msg = hiddenName(name), "has an unknown field"+known
	}
	d.errors.add(d.src.keyPosition(at.append(key)).newFieldError("", msg))
}

// findDuplicates reports fields that are set twice: in the same mapping, or in a mapping and in
// another mapping that is merged into it.
func (d *diagnosis) findDuplicates(n *yaml.Node, want *shape, at fieldPath) {
	if d.errors.isFull() || len(at) > maxNodeDepth {
		return
	}
	switch n.Kind {
	case yaml.SequenceNode:
		for i, child := range n.Content {
			d.findDuplicates(child, want.itemShape(), at.append(i))
		}
	case yaml.MappingNode:
		seen := map[string]bool{}
		for i := 0; i+1 < len(n.Content) && !d.errors.isFull(); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			if isMergeKey(key) {
				continue
			}
			field, name := want.findField(key.Value)
			if seen[key.Value] {
				d.reportDuplicate(key, at.append(name), "a field is set twice: remove one of them")
			}
			seen[key.Value] = true
			d.findDuplicates(value, field, at.append(name))
		}
		for key, m := range mergedMappings(n) {
			for i := 0; i+1 < len(m.Content) && !d.errors.isFull(); i += 2 {
				if name := m.Content[i].Value; seen[name] {
					d.reportDuplicate(key, at, "a field is set here and by the merge key <<: set it only once")
				} else {
					seen[name] = true
				}
			}
		}
	}
}

// reportDuplicate reports a duplicate field at the position of its second key.
func (d *diagnosis) reportDuplicate(key *yaml.Node, at fieldPath, msg string) {
	d.errors.add(d.src.withNodePosition(Position{File: d.src.name, Path: at.String()}, key).newFieldError("", msg))
}
