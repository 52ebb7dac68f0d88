// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/regcred/regcred/plugin"
)

// schema is the part of JSON Schema (draft 7, which editors support best) that a
// configuration needs.
type schema struct {
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
	Items       *schema            `json:"items,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`
	Others      *bool              `json:"additionalProperties,omitempty"`
	AllOf       []*schema          `json:"allOf,omitempty"`
	If          *schema            `json:"if,omitempty"`
	Then        *schema            `json:"then,omitempty"`
	Definitions map[string]*schema `json:"definitions,omitempty"`
}

// versions lists the versions of a CredentialProviderConfig, newest first.
var versions = []string{V1, V1Beta1, V1Alpha1}

// Schema returns the JSON Schema (draft 7) of files of a version; "" means a
// schema of all versions that depends on the file's apiVersion. A schema accepts
// the files that the newest known kubelet accepts, with these differences:
//
//   - It does not check that names are unique and that patterns are valid.
//   - It rejects null, which the kubelet treats as absent.
//   - It accepts only ASCII letters in annotation keys.
//
// The error is for an unknown version.
func Schema(version string) ([]byte, error) {
	s := schemaOfAll()
	if version != "" {
		if !slices.Contains(versions, version) {
			return nil, fmt.Errorf("%q is not a valid version of %s: the valid versions are %s", version, Kind, list(versions))
		}
		s = schemaOf(version)
		s.Dialect, s.Title = draft7, Kind+", "+version
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(s)
	return b.Bytes(), err
}

func schemaOfAll() *schema {
	s := &schema{
		Dialect: draft7, Title: Kind, Type: "object", Required: []string{"apiVersion", "kind", "providers"},
		// Also here, so that an editor can complete a file that has no apiVersion yet.
		Properties: map[string]*schema{
			"apiVersion": {Type: "string", Enum: versions},
			"kind":       {Type: "string", Const: Kind, Description: fieldDocs()["kind"].text},
			"providers":  {Type: "array", Description: fieldDocs()["providers"].text},
		},
		Definitions: map[string]*schema{},
	}
	for _, version := range versions {
		name := version[strings.LastIndexByte(version, '/')+1:]
		s.Definitions[name] = schemaOf(version)
		s.AllOf = append(s.AllOf, when("apiVersion", version, &schema{Ref: "#/definitions/" + name}))
	}
	return s
}

const draft7 = "http://json-schema.org/draft-07/schema#"

// when returns a schema that applies then if a field has a value.
func when(field string, value any, then *schema) *schema {
	return &schema{If: &schema{Properties: map[string]*schema{field: {Const: value}}, Required: []string{field}}, Then: then}
}

// schemaOf combines the type that files of a version are decoded into with fieldDocs.
func schemaOf(version string) *schema {
	format := typeMeta{APIVersion: version, Kind: Kind}.format()
	s := shapeOf(reflect.TypeOf(format)).schema("")
	s.Properties["apiVersion"].Const = version
	s.Properties["apiVersion"].Description = "Version of this file. Each provider has its own apiVersion."
	s.Properties["kind"].Const = Kind
	return s
}

// schema returns the schema of a shape at a path.
func (s *shape) schema(path string) *schema {
	out := &schema{Type: "string"}
	switch {
	case s.elem != nil:
		out.Type, out.Items = "array", s.elem.schema(path+"[]")
	case s.fields != nil:
		out.Type, out.Properties, out.Others = "object", map[string]*schema{}, new(false)
		for _, name := range s.names() {
			out.Properties[name] = s.fields[name].schema(strings.TrimPrefix(path+"."+name, "."))
		}
	case s.noun == aBoolean:
		out.Type = "boolean"
	}
	if doc, ok := fieldDocs()[path]; ok {
		out.Description = doc.text
		if doc.constrain != nil {
			doc.constrain(out)
		}
	}
	return out
}

// fieldDoc describes a field, and adds the constraints that its type does not have.
type fieldDoc struct {
	text      string
	constrain func(*schema)
}

const (
	unit = `([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)`
	none = `(0+(\.0*)?|\.0+)(ns|us|µs|μs|ms|s|m|h)`

	label     = `[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?`
	qualified = `^(` + label + `(\.` + label + `)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
)

// fieldDocs returns the documentation of the fields by path. Sources: the types and
// validation of pkg/kubelet/apis/config and pkg/credentialprovider/plugin (1.37).
func fieldDocs() map[string]fieldDoc {
	needs := func(fields ...string) func(*schema) { return func(s *schema) { s.Required = fields } }
	keys := func(s *schema) { s.UniqueItems = true }
	key := func(s *schema) { s.Pattern = qualified }
	return map[string]fieldDoc{
		"":          {"", needs("apiVersion", "kind", "providers")},
		"kind":      {"Kind of this file.", nil},
		"providers": {"Plugins. The kubelet calls every plugin whose patterns match an image, and tries credentials from earlier plugins first.", func(s *schema) { s.MinItems = 1 }},
		"providers[]": {"A plugin and the images that the kubelet calls it for.", func(s *schema) {
			s.Required = []string{"name", "matchImages", "defaultCacheDuration", "apiVersion"}
			if s.Properties["tokenAttributes"] != nil {
				s.If = &schema{Required: []string{"tokenAttributes"}}
				s.Then = &schema{Properties: map[string]*schema{"apiVersion": {Const: plugin.V1}}}
			}
		}},
		"providers[].name": {"File name of the executable in the kubelet's --image-credential-provider-bin-dir. Must be unique.",
			func(s *schema) { s.Pattern = `^(\.{0,2}[^/\\ .][^/\\ ]*|\.{3}[^/\\ ]*)$` }},
		"providers[].matchImages": {"Image patterns: HOST[:PORT][/PATH]. In the host, * matches any part of one label. The pattern and the image must have the same number of host labels. The path is matched as a prefix. The port cannot contain a wildcard.",
			func(s *schema) { s.MinItems = 1 }},
		"providers[].matchImages[]": {"For example *.dkr.ecr.*.amazonaws.com or registry.example/team, without a scheme.", nil},
		"providers[].defaultCacheDuration": {`Cache duration for responses that do not specify a cache duration, for example "12h" or "10m". "0s" disables caching.`,
			func(s *schema) { s.Pattern = `^(0|\+?(` + unit + `)+|[+-](0|(` + none + `)+))$` }},
		"providers[].apiVersion": {"Version of the plugin protocol.",
			func(s *schema) { s.Enum = []string{plugin.V1, plugin.V1Beta1, plugin.V1Alpha1} }},
		"providers[].args":            {"Arguments of the plugin. Values are literal: no shell is used, and variables are not expanded.", nil},
		"providers[].env":             {"Environment variables to add to the kubelet's environment. Values are literal. If a name is repeated, the last variable wins.", nil},
		"providers[].env[]":           {"An environment variable.", nil},
		"providers[].env[].name":      {"Name of the variable.", nil},
		"providers[].env[].value":     {"Value of the variable. It is literal.", nil},
		"providers[].tokenAttributes": {"Passes the pod's service account token to the plugin (kubelet 1.34, or 1.33 with a feature gate).", tokenSchema},
		"providers[].tokenAttributes.serviceAccountTokenAudience": {"Audience of the tokens. The kubelet needs permission to request tokens for this audience: see regcred rbac.", func(s *schema) { s.MinLength = 1 }},
		"providers[].tokenAttributes.cacheType": {"What to cache responses by: Token if the plugin returns the token itself or a credential that expires no later than the token; otherwise ServiceAccount.",
			func(s *schema) { s.Enum = []string{string(CachePerServiceAccount), string(CachePerToken)} }},
		"providers[].tokenAttributes.requireServiceAccount":                  {"Set to true to call the plugin only for pods with a service account.", nil},
		"providers[].tokenAttributes.requiredServiceAccountAnnotationKeys":   {"Annotations that the service account must have. The kubelet passes the annotations to the plugin, and skips the plugin if an annotation is missing.", keys},
		"providers[].tokenAttributes.requiredServiceAccountAnnotationKeys[]": {"Key of an annotation.", key},
		"providers[].tokenAttributes.optionalServiceAccountAnnotationKeys":   {"Annotations to pass to the plugin if the service account has them.", keys},
		"providers[].tokenAttributes.optionalServiceAccountAnnotationKeys[]": {"Key of an annotation.", key},
	}
}

func tokenSchema(s *schema) {
	s.Required = []string{"serviceAccountTokenAudience", "cacheType", "requireServiceAccount"}
	without := &schema{Properties: map[string]*schema{"requiredServiceAccountAnnotationKeys": {MaxItems: new(0)}}}
	s.AllOf = []*schema{when("requireServiceAccount", false, without)}
}
