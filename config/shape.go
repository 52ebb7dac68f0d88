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

// shape is what a value in a configuration file must be. It is derived from
// the type that the value is decoded into, and exists to explain errors: the
// decoder has the last word.
type shape struct {
	noun   string                // what it must be, for messages
	text   func(s string) string // says what is wrong with a text; nil if it must not be one
	fields map[string]*shape     // of a mapping
	values *shape                // of a mapping with fields of any name
	elem   *shape                // of a list
	secret bool                  // neither its values nor its unknown fields are shown
	others string                // what is said about unknown fields that are not shown
}

const (
	aString  = "a string"
	aBoolean = "a boolean"
)

// shapeOf returns the shape of what is decoded into a type; nil if it must not
// be there. A type that decodes itself says so itself.
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

// addFields adds the fields of a struct. Those of an embedded one, which
// stands first, may be shadowed.
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

// field returns the shape of a field, and its name as an element of a path; no
// shape if there is no such field.
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

// item returns the shape of an item; nil if it is not a list.
func (s *shape) item() *shape {
	if s == nil {
		return nil
	}
	return s.elem
}

// names returns the fields of a mapping, sorted.
func (s *shape) names() []string { return slices.Sorted(maps.Keys(s.fields)) }

// list is "a, b and c".
func list(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// isFieldName reports whether a text looks like the name of a field. Anything
// else may be a value that broken quoting has put where a name belongs.
func isFieldName(s string) bool {
	return len(s) <= 32 && !strings.ContainsFunc(s, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r)
	})
}

// variableName returns a text as an element of a path. It is shown if it looks
// like the name of a variable, and not like a secret that stands in its place.
func variableName(s string) any {
	unlike := func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_'
	}
	if s == "" || len(s) > 32 || strings.ContainsFunc(s, unlike) {
		return hidden(s)
	}
	return s
}
