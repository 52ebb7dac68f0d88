// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/regcred/regcred/plugin"
)

// shape describes the valid values of a field. It is derived from the type that the field
// is decoded into, and only explains errors; the decoder decides.
type shape struct {
	noun   string                // for messages: "must be " + noun
	text   func(s string) string // validates a string and returns the problem; nil if strings are invalid
	fields map[string]*shape     // of a mapping
	values *shape                // of a mapping with arbitrary field names
	elem   *shape                // of a list
	secret bool                  // do not show values and unknown fields
	others string                // message for unknown fields that are not shown
}

const (
	aString  = "a string"
	aBoolean = "a boolean"
)

// shapeOf returns the shape of a type; nil if the field must be absent. Types with their
// own decoder have a method shape.
func shapeOf(t reflect.Type) *shape {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if own, ok := reflect.Zero(t).Interface().(interface{ shape() *shape }); ok {
		return own.shape()
	}
	switch t {
	case reflect.TypeFor[plugin.Secret]():
		return &shape{noun: aString, text: anyText, secret: true}
	case reflect.TypeFor[EnvVar]():
		secret := shapeOf(reflect.TypeFor[plugin.Secret]())
		return &shape{noun: "a mapping with name and value", fields: map[string]*shape{"name": secret, "value": secret}, secret: true}
	}
	switch t.Kind() {
	case reflect.Struct:
		s := &shape{noun: "a mapping", fields: map[string]*shape{}}
		s.addFields(t)
		return s
	case reflect.Slice:
		elem := shapeOf(t.Elem())
		return &shape{noun: "a list", elem: elem, secret: elem.secret}
	case reflect.Bool:
		return &shape{noun: aBoolean}
	}
	return &shape{noun: aString, text: anyText}
}

func anyText(string) string { return "" }

// addFields adds the fields of a struct. They override an embedded struct's fields.
func (s *shape) addFields(t reflect.Type) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		field := shapeOf(f.Type)
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

// field returns the shape of a field, or nil, and its name as a path element.
func (s *shape) field(name string) (*shape, any) {
	switch {
	case s == nil:
		return nil, hidden(name)
	case s.fields[name] != nil:
		return s.fields[name], name
	case s.values != nil:
		return s.values, variableName(name)
	}
	return nil, hidden(name)
}

// item returns the shape of a list's items; nil if s is not a list.
func (s *shape) item() *shape {
	if s == nil {
		return nil
	}
	return s.elem
}

// names returns the fields of a mapping, sorted.
func (s *shape) names() []string { return slices.Sorted(maps.Keys(s.fields)) }

// list returns "a, b and c".
func list(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// isFieldName reports whether a text looks like a field name. Other texts may be values
// that were parsed as names because of wrong quoting.
func isFieldName(s string) bool {
	return len(s) <= 32 && !strings.ContainsFunc(s, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r)
	})
}

// variableName returns a text as a path element. It is shown only if it looks like a
// variable name, because it may be a misplaced secret.
func variableName(s string) any {
	unlike := func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_'
	}
	if s == "" || len(s) > 32 || strings.ContainsFunc(s, unlike) {
		return hidden(s)
	}
	return s
}
