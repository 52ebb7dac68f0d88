// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"

	"github.com/regcred/regcred/internal/spelling"
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

// hint guesses what was meant by an unknown field.
func (s *shape) hint(name string) string {
	if s.fields["matchImages"] != nil {
		switch {
		case name == "tokenAttributes":
			return "supported only in version " + V1
		case name == "imageMatchers":
			return "matchImages was called imageMatchers in the out-of-tree proposal"
		case name == "extraArgs":
			return "this field exists only in the out-of-tree proposal: use args or env"
		}
	}
	if s.fields["imageMatchers"] != nil {
		switch name {
		case "matchImages":
			return "use imageMatchers in this kind of file"
		case "args", "env":
			return "this kind of file uses extraArgs to set environment variables"
		case "defaultCacheDuration":
			return "not supported in this kind of file, because responses are cached until their expirationTimestamp"
		case "tokenAttributes":
			return "supported only in kind " + Kind
		}
	}
	best := s.nearest(name)
	switch place := s.placeOf(name); {
	case best != "" && fold(best) == fold(name):
		return fmt.Sprintf("did you mean %s? (case matters)", best)
	case place != "":
		return place
	case best == "":
		return ""
	}
	return fmt.Sprintf("did you mean %s?", best)
}

// otherNames are what people call fields of a provider; imageMatchers is the
// predecessor's.
var otherNames = map[string]string{
	"imageMatchers": "matchImages", "images": "matchImages", "patterns": "matchImages", "registries": "matchImages",
	"arguments": "args", "argv": "args", "environment": "env", "envs": "env", "environmentVariables": "env",
}

// nearest is the field that is most likely meant by a name; "" if none is.
func (s *shape) nearest(name string) string {
	if field := otherNames[name]; s.fields[field] != nil {
		return field
	}
	best, distance := "", 3
	for field := range s.fields {
		if fold(field) == fold(name) {
			return field
		}
		d := spelling.Distance(fold(field), fold(name))
		if 2*d < len(field) && (d < distance || d == distance && field < best) {
			best, distance = field, d
		}
	}
	return best
}

// fold drops what people get wrong about field names: case and separators.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("-_ ", r) {
			return -1
		}
		return unicode.ToLower(r)
	}, s)
}

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
