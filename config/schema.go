// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/regcred/regcred/plugin"
)

// Schema is a JSON Schema (draft 7, which editors know best), as far as that of
// a configuration needs one. It is made to be written as JSON.
type Schema struct {
	Dialect     string             `json:"$schema,omitempty"`
	Ref         string             `json:"$ref,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        string             `json:"type,omitempty"`
	Const       any                `json:"const,omitempty"`
	Enum        []string           `json:"enum,omitempty"`
	Pattern     string             `json:"pattern,omitempty"`
	MinLength   int                `json:"minLength,omitempty"`
	MinItems    int                `json:"minItems,omitempty"`
	MaxItems    *int               `json:"maxItems,omitempty"`
	UniqueItems bool               `json:"uniqueItems,omitempty"`
	Items       *Schema            `json:"items,omitempty"`
	Properties  map[string]*Schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`
	Others      *bool              `json:"additionalProperties,omitempty"`
	AllOf       []*Schema          `json:"allOf,omitempty"`
	If          *Schema            `json:"if,omitempty"`
	Then        *Schema            `json:"then,omitempty"`
	Definitions map[string]*Schema `json:"definitions,omitempty"`
}

// Versions are the versions of a CredentialProviderConfig, the newest first.
func Versions() []string { return []string{V1, V1Beta1, V1Alpha1} }

// SchemaOf returns the schema of files of a version: what the newest known
// kubelet takes, as far as a schema can say it. Whether a name is given twice,
// and what a pattern matches, it cannot; and it wants values where a kubelet
// takes null for none, and keys of annotations in letters of ASCII. The error is for a version that there is not.
func SchemaOf(version string) (*Schema, error) {
	if !slices.Contains(Versions(), version) {
		return nil, fmt.Errorf("%q is no version of a %s: there are %s", version, Kind, list(Versions()))
	}
	s := schemaOf(version)
	s.Dialect, s.Title = draft7, Kind+", "+version
	return s, nil
}

// SchemaOfAll returns a schema of files of any version: which one of them
// counts, their apiVersion says.
func SchemaOfAll() *Schema {
	s := &Schema{
		Dialect: draft7, Title: Kind, Type: "object", Required: []string{"apiVersion", "kind", "providers"},
		// All of it, so that an editor knows what a file begins with: a version is chosen last.
		Properties: map[string]*Schema{
			"apiVersion": {Type: "string", Enum: Versions()},
			"kind":       {Type: "string", Const: Kind, Description: known()["kind"].says},
			"providers":  {Type: "array", Description: known()["providers"].says},
		},
		Definitions: map[string]*Schema{},
	}
	for _, version := range Versions() {
		name := version[strings.LastIndexByte(version, '/')+1:]
		s.Definitions[name] = schemaOf(version)
		s.AllOf = append(s.AllOf, when("apiVersion", version, &Schema{Ref: "#/definitions/" + name}))
	}
	return s
}

const draft7 = "http://json-schema.org/draft-07/schema#"

// when is what holds where a field has a value.
func when(field string, value any, then *Schema) *Schema {
	return &Schema{If: &Schema{Properties: map[string]*Schema{field: {Const: value}}, Required: []string{field}}, Then: then}
}

// schemaOf is made of the type that files of a version are decoded into, and of
// what is known of each of its fields.
func schemaOf(version string) *Schema {
	format := typeMeta{APIVersion: version, Kind: Kind}.format()
	s := shapeOf(reflect.TypeOf(format)).schema("")
	s.Properties["apiVersion"].Const = version
	s.Properties["apiVersion"].Description = "The version of this file; plugins have one of their own, in providers."
	s.Properties["kind"].Const = Kind
	return s
}

// schema returns what a shape, at a path, is in a schema.
func (s *shape) schema(path string) *Schema {
	out := &Schema{Type: "string"}
	switch {
	case s.elem != nil:
		out.Type, out.Items = "array", s.elem.schema(path+"[]")
	case s.fields != nil:
		out.Type, out.Properties, out.Others = "object", map[string]*Schema{}, new(false)
		for _, name := range slices.Sorted(maps.Keys(s.fields)) {
			out.Properties[name] = s.fields[name].schema(strings.TrimPrefix(path+"."+name, "."))
		}
	case s.noun == aBoolean:
		out.Type = "boolean"
	}
	if know, ok := known()[path]; ok {
		out.Description = know.says
		if know.more != nil {
			know.more(out)
		}
	}
	return out
}

// knowledge is what is known of a field that its type does not say.
type knowledge struct {
	says string // to the person who writes it
	more func(*Schema)
}

const (
	unit = `([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)`
	none = `(0+(\.0*)?|\.0+)(ns|us|µs|μs|ms|s|m|h)`

	label     = `[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?`
	qualified = `^(` + label + `(\.` + label + `)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
)

// known is what is known of the fields, by their paths. Sources: the types and
// validation of pkg/kubelet/apis/config and pkg/credentialprovider/plugin (1.37).
func known() map[string]knowledge {
	needs := func(fields ...string) func(*Schema) { return func(s *Schema) { s.Required = fields } }
	keys := func(s *Schema) { s.UniqueItems = true }
	key := func(s *Schema) { s.Pattern = qualified }
	return map[string]knowledge{
		"":          {"", needs("apiVersion", "kind", "providers")},
		"kind":      {"The kind of this file.", nil},
		"providers": {"The plugins. Each whose patterns match an image is asked for its credentials; those of earlier ones are tried first.", func(s *Schema) { s.MinItems = 1 }},
		"providers[]": {"A plugin, and the images that it is asked about.", func(s *Schema) {
			s.Required = []string{"name", "matchImages", "defaultCacheDuration", "apiVersion"}
			if s.Properties["tokenAttributes"] != nil {
				s.If = &Schema{Required: []string{"tokenAttributes"}}
				s.Then = &Schema{Properties: map[string]*Schema{"apiVersion": {Const: plugin.V1}}}
			}
		}},
		"providers[].name": {"The file name of the executable in the kubelet's --image-credential-provider-bin-dir. No two providers have the same.",
			func(s *Schema) { s.Pattern = `^(\.{0,2}[^/\\ .][^/\\ ]*|\.{3}[^/\\ ]*)$` }},
		"providers[].matchImages": {"Patterns of images: HOST[:PORT][/PATH]. In the host * stands for any part of one label; every label of the image's host needs one in the pattern. The path is a prefix, the port has no wildcard.",
			func(s *Schema) { s.MinItems = 1 }},
		"providers[].matchImages[]": {"Such as *.dkr.ecr.*.amazonaws.com or registry.example/team; without a scheme.", nil},
		"providers[].defaultCacheDuration": {`How long an answer is kept that does not say so itself: "12h", "10m"; "0s" for not at all.`,
			func(s *Schema) { s.Pattern = `^(0|\+?(` + unit + `)+|[+-](0|(` + none + `)+))$` }},
		"providers[].apiVersion": {"The version of the protocol that the plugin speaks.",
			func(s *Schema) { s.Enum = []string{plugin.V1, plugin.V1Beta1, plugin.V1Alpha1} }},
		"providers[].args":            {"Arguments of the plugin, each as it is: no shell reads them, and nothing in them is replaced.", nil},
		"providers[].env":             {"Variables beside those of the kubelet's environment; values are literal. Of two of one name the later wins.", nil},
		"providers[].env[]":           {"A variable.", nil},
		"providers[].env[].name":      {"Its name.", nil},
		"providers[].env[].value":     {"Its value, as it is: nothing in it is replaced.", nil},
		"providers[].tokenAttributes": {"The plugin is given a token of the pod's service account (kubelet 1.34; 1.33 with its feature gate).", tokenSchema},
		"providers[].tokenAttributes.serviceAccountTokenAudience": {"The audience that the tokens are for. Kubelets need the permission to request it: regcred rbac.", func(s *Schema) { s.MinLength = 1 }},
		"providers[].tokenAttributes.cacheType": {"What an answer is kept under: ServiceAccount, or Token if the plugin returns the token itself or something that lives no longer.",
			func(s *Schema) { s.Enum = []string{string(CachePerServiceAccount), string(CachePerToken)} }},
		"providers[].tokenAttributes.requireServiceAccount":                  {"true if the plugin is for pods with a service account alone.", nil},
		"providers[].tokenAttributes.requiredServiceAccountAnnotationKeys":   {"Annotations that the service account must have; without one the plugin is not asked. The plugin is given them.", keys},
		"providers[].tokenAttributes.requiredServiceAccountAnnotationKeys[]": {"The key of an annotation.", key},
		"providers[].tokenAttributes.optionalServiceAccountAnnotationKeys":   {"Annotations that the plugin is given if the service account has them.", keys},
		"providers[].tokenAttributes.optionalServiceAccountAnnotationKeys[]": {"The key of an annotation.", key},
	}
}

func tokenSchema(s *Schema) {
	s.Required = []string{"serviceAccountTokenAudience", "cacheType", "requireServiceAccount"}
	without := &Schema{Properties: map[string]*Schema{"requiredServiceAccountAnnotationKeys": {MaxItems: new(0)}}}
	s.AllOf = []*Schema{when("requireServiceAccount", false, without)}
}
