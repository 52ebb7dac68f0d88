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
		return nil, fmt.Errorf("%q is not a valid version of %s: the valid versions are %s", version, Kind, list(Versions()))
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
	s.Properties["apiVersion"].Description = "Version of this file. Each provider has its own apiVersion."
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
		"kind":      {"Kind of this file.", nil},
		"providers": {"Plugins. The kubelet calls every plugin whose patterns match an image, and tries credentials from earlier plugins first.", func(s *Schema) { s.MinItems = 1 }},
		"providers[]": {"A plugin and the images that the kubelet calls it for.", func(s *Schema) {
			s.Required = []string{"name", "matchImages", "defaultCacheDuration", "apiVersion"}
			if s.Properties["tokenAttributes"] != nil {
				s.If = &Schema{Required: []string{"tokenAttributes"}}
				s.Then = &Schema{Properties: map[string]*Schema{"apiVersion": {Const: plugin.V1}}}
			}
		}},
		"providers[].name": {"File name of the executable in the kubelet's --image-credential-provider-bin-dir. Must be unique.",
			func(s *Schema) { s.Pattern = `^(\.{0,2}[^/\\ .][^/\\ ]*|\.{3}[^/\\ ]*)$` }},
		"providers[].matchImages": {"Image patterns: HOST[:PORT][/PATH]. In the host, * matches any part of one label. The pattern and the image must have the same number of host labels. The path is matched as a prefix. The port cannot contain a wildcard.",
			func(s *Schema) { s.MinItems = 1 }},
		"providers[].matchImages[]": {"For example *.dkr.ecr.*.amazonaws.com or registry.example/team, without a scheme.", nil},
		"providers[].defaultCacheDuration": {`Cache duration for responses that do not specify a cache duration, for example "12h" or "10m". "0s" disables caching.`,
			func(s *Schema) { s.Pattern = `^(0|\+?(` + unit + `)+|[+-](0|(` + none + `)+))$` }},
		"providers[].apiVersion": {"Version of the plugin protocol.",
			func(s *Schema) { s.Enum = []string{plugin.V1, plugin.V1Beta1, plugin.V1Alpha1} }},
		"providers[].args":            {"Arguments of the plugin. Values are literal: no shell is used, and variables are not expanded.", nil},
		"providers[].env":             {"Environment variables to add to the kubelet's environment. Values are literal. If a name is repeated, the last variable wins.", nil},
		"providers[].env[]":           {"An environment variable.", nil},
		"providers[].env[].name":      {"Name of the variable.", nil},
		"providers[].env[].value":     {"Value of the variable. It is literal.", nil},
		"providers[].tokenAttributes": {"Passes the pod's service account token to the plugin (kubelet 1.34, or 1.33 with a feature gate).", tokenSchema},
		"providers[].tokenAttributes.serviceAccountTokenAudience": {"Audience of the tokens. The kubelet needs permission to request tokens for this audience: see regcred rbac.", func(s *Schema) { s.MinLength = 1 }},
		"providers[].tokenAttributes.cacheType": {"What to cache responses by: Token if the plugin returns the token itself or a credential that expires no later than the token; otherwise ServiceAccount.",
			func(s *Schema) { s.Enum = []string{string(CachePerServiceAccount), string(CachePerToken)} }},
		"providers[].tokenAttributes.requireServiceAccount":                  {"Set to true to call the plugin only for pods with a service account.", nil},
		"providers[].tokenAttributes.requiredServiceAccountAnnotationKeys":   {"Annotations that the service account must have. The kubelet passes the annotations to the plugin, and skips the plugin if an annotation is missing.", keys},
		"providers[].tokenAttributes.requiredServiceAccountAnnotationKeys[]": {"Key of an annotation.", key},
		"providers[].tokenAttributes.optionalServiceAccountAnnotationKeys":   {"Annotations to pass to the plugin if the service account has them.", keys},
		"providers[].tokenAttributes.optionalServiceAccountAnnotationKeys[]": {"Key of an annotation.", key},
	}
}

func tokenSchema(s *Schema) {
	s.Required = []string{"serviceAccountTokenAudience", "cacheType", "requireServiceAccount"}
	without := &Schema{Properties: map[string]*Schema{"requiredServiceAccountAnnotationKeys": {MaxItems: new(0)}}}
	s.AllOf = []*Schema{when("requireServiceAccount", false, without)}
}
