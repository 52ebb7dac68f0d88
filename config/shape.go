// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"fmt"
	"strings"
)

// shape is what a value in a configuration file must be: a scalar, an object
// or a list. It exists to explain errors; the decoder has the last word.
type shape struct {
	scalar string // "string", "boolean" or "duration"
	fields map[string]*shape
	elem   *shape
	values *shape   // of a mapping with fields of any name
	oneOf  []string // the strings that it may be, if not any; "" is not mentioned
	secret bool     // neither its values nor its unknown fields are shown
	others string   // what is said about unknown fields that are not shown
}

// documentShape returns the shape of a file of the given type, and that of
// configuration v1 for an unknown one.
func documentShape(m typeMeta) *shape {
	if m.predecessor() {
		return predecessorShape()
	}
	return configShape(m.APIVersion)
}

// configShape returns the shape of a file that a kubelet reads.
func configShape(apiVersion string) *shape {
	str, boolean := &shape{scalar: "string"}, &shape{scalar: "boolean"}
	texts := &shape{elem: str}
	secret := &shape{scalar: "string", secret: true}
	env := &shape{secret: true, fields: map[string]*shape{"name": {scalar: "string", secret: true}, "value": secret}}
	provider := map[string]*shape{
		"name":                 str,
		"matchImages":          texts,
		"defaultCacheDuration": {scalar: "duration"},
		"apiVersion":           str,
		"args":                 {elem: secret, secret: true},
		"env":                  {elem: env, secret: true},
	}
	if apiVersion != V1Beta1 && apiVersion != V1Alpha1 {
		provider["tokenAttributes"] = &shape{fields: map[string]*shape{
			"serviceAccountTokenAudience":          str,
			"cacheType":                            str,
			"requireServiceAccount":                boolean,
			"requiredServiceAccountAnnotationKeys": texts,
			"optionalServiceAccountAnnotationKeys": texts,
		}}
	}
	return &shape{fields: map[string]*shape{
		"apiVersion": str,
		"kind":       str,
		"providers":  {elem: &shape{fields: provider}},
	}}
}

func (s *shape) describe() string {
	switch {
	case s.fields["value"] != nil:
		return "a mapping with name and value"
	case s.fields != nil:
		return "a mapping"
	case s.elem != nil && s.values != nil:
		return "a list of items with name and value, or a mapping of names to values"
	case s.elem != nil:
		return "a list"
	}
	if s.scalar == "duration" {
		return `a duration in quotes, such as "12h", "10m" or "0s"`
	}
	return "a " + s.scalar
}

// field returns the shape of a field; nil if there is none of that name.
func (s *shape) field(name string) *shape {
	if f := s.fields[name]; f != nil {
		return f
	}
	return s.values
}

// hint guesses what was meant by an unknown field.
func (s *shape) hint(name string) string {
	if s.fields["matchImages"] != nil {
		switch {
		case name == "tokenAttributes":
			return "only files of version " + V1 + " have it"
		case name == "imageMatchers":
			return "the predecessor's name of matchImages"
		case name == "extraArgs":
			return "the predecessor's field: write args, or env"
		}
	}
	if s.fields["imageMatchers"] != nil {
		switch name {
		case "matchImages":
			return "in this kind of file it is imageMatchers"
		case "args", "env":
			return "in this kind of file it is extraArgs, which become variables of the environment"
		case "defaultCacheDuration":
			return "this kind of file has none: an answer is kept until its expirationTimestamp"
		case "tokenAttributes":
			return "only files of kind " + Kind + " have it"
		}
	}
	best, distance := "", 3
	for field := range s.fields {
		if fold(field) == fold(name) {
			return fmt.Sprintf("did you mean %s? (case matters)", field)
		}
		d := editDistance(fold(field), fold(name))
		if 2*d < len(field) && (d < distance || d == distance && field < best) {
			best, distance = field, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %s?", best)
}

// fold drops what people get wrong about field names: case and separators.
func fold(s string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "", " ", "").Replace(s))
}

// editDistance is the Levenshtein distance, or a large number for texts that
// are too long to be field names.
func editDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

// list is "a, b and c".
func list(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
