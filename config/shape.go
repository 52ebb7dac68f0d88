// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/regcred/regcred/plugin"
)

// shape describes the valid values of a field. It is derived from the Go type of the field. It
// is used only to explain errors. The decoder decides whether a value is valid.
type shape struct {
	noun                string                // for messages: "must be " + noun
	checkText           func(s string) string // validates a string and returns the problem; nil if strings are invalid
	fields              map[string]*shape     // the fields of a mapping with fixed field names
	values              *shape                // the values of a mapping with arbitrary field names
	elem                *shape                // the items of a list
	secret              bool                  // messages must not show values or unknown fields
	unknownFieldMessage string                // message for unknown fields whose names must not be shown
}

const (
	nounString  = "a string"
	nounBoolean = "a boolean"
)

// newShape returns the shape of a Go type. It returns nil for a field that must be absent.
// Types with their own decoder have a shape method.
func newShape(t reflect.Type) *shape {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if own, ok := reflect.Zero(t).Interface().(interface{ shape() *shape }); ok {
		return own.shape()
	}
	switch t {
	case reflect.TypeFor[plugin.Secret]():
		return &shape{noun: nounString, checkText: acceptAnyText, secret: true}
	case reflect.TypeFor[EnvVar]():
		secret := newShape(reflect.TypeFor[plugin.Secret]())
		return &shape{noun: "a mapping with name and value", fields: map[string]*shape{"name": secret, "value": secret}, secret: true}
	}
	switch t.Kind() {
	case reflect.Struct:
		s := &shape{noun: "a mapping", fields: map[string]*shape{}}
		s.addFields(t)
		return s
	case reflect.Slice:
		elem := newShape(t.Elem())
		return &shape{noun: "a list", elem: elem, secret: elem.secret}
	case reflect.Bool:
		return &shape{noun: nounBoolean}
	}
	return &shape{noun: nounString, checkText: acceptAnyText}
}

func acceptAnyText(string) string { return "" }

// addFields adds the fields of a struct. A field overrides the field with the same name in an
// embedded struct.
func (s *shape) addFields(t reflect.Type) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		field := newShape(f.Type)
		switch {
		case f.Anonymous:
			s.addFields(f.Type)
		case field == nil:
			delete(s.fields, name)
		default:
			s.fields[name] = field
		}
	}
}

// findField returns the shape of a field and its name as a path element. The shape is nil if
// the field is unknown.
func (s *shape) findField(name string) (*shape, any) {
	switch {
	case s == nil:
		return nil, hiddenName(name)
	case s.fields[name] != nil:
		return s.fields[name], name
	case s.values != nil:
		return s.values, variablePathElement(name)
	}
	return nil, hiddenName(name)
}

// itemShape returns the shape of a list's items, or nil if s is not a list.
func (s *shape) itemShape() *shape {
	if s == nil {
		return nil
	}
	return s.elem
}

func (s *shape) fieldNames() []string { return slices.Sorted(maps.Keys(s.fields)) }

// joinWithAnd formats words as "a, b and c".
func joinWithAnd(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// isFieldName reports whether s looks like a field name. Other strings may be values
// that were parsed as names because of wrong quoting.
func isFieldName(s string) bool {
	return len(s) <= 32 && strings.Trim(s, asciiLetters) == ""
}

// variablePathElement returns s as a path element. It hides s unless s looks like a variable
// name, because s may be a misplaced secret.
func variablePathElement(s string) any {
	if s == "" || len(s) > 32 || strings.ContainsAny(s, "-.") || strings.Trim(s, variableNameChars) != "" {
		return hiddenName(s)
	}
	return s
}

const (
	asciiLetters      = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	variableNameChars = asciiLetters + "0123456789_-."
)
