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

// jsonSchema contains the JSON Schema keywords that the configuration needs. It uses draft 7,
// which editors support best.
type jsonSchema struct {
	Dialect     string                 `json:"$schema,omitempty"`
	Ref         string                 `json:"$ref,omitempty"`
	Title       string                 `json:"title,omitempty"`
	Description string                 `json:"description,omitempty"`
	Type        string                 `json:"type,omitempty"`
	Const       any                    `json:"const,omitempty"`
	Enum        []string               `json:"enum,omitempty"`
	Pattern     string                 `json:"pattern,omitempty"`
	MinLength   int                    `json:"minLength,omitempty"`
	MinItems    int                    `json:"minItems,omitempty"`
	MaxItems    *int                   `json:"maxItems,omitempty"`
	UniqueItems bool                   `json:"uniqueItems,omitempty"`
	Items       *jsonSchema            `json:"items,omitempty"`
	Properties  map[string]*jsonSchema `json:"properties,omitempty"`
	Required    []string               `json:"required,omitempty"`
	Others      *bool                  `json:"additionalProperties,omitempty"`
	AllOf       []*jsonSchema          `json:"allOf,omitempty"`
	If          *jsonSchema            `json:"if,omitempty"`
	Then        *jsonSchema            `json:"then,omitempty"`
	Definitions map[string]*jsonSchema `json:"definitions,omitempty"`
}

// configVersions lists the versions of a CredentialProviderConfig, newest first.
var configVersions = []string{V1, V1Beta1, V1Alpha1}

// Schema returns the JSON Schema (draft 7) for files of a version. For the version "", it
// returns a schema for all versions that depends on the file's apiVersion. A schema accepts the
// files that the newest known kubelet accepts, with these differences:
//
//   - It does not check that names are unique and that patterns are valid.
//   - It rejects null, which the kubelet treats as absent.
//   - It accepts only ASCII letters in annotation keys.
//
// Schema returns an error if the version is unknown.
func Schema(version string) ([]byte, error) {
	s := combinedSchema()
	if version != "" {
		if !slices.Contains(configVersions, version) {
			return nil, fmt.Errorf("%q is not a valid version of %s: the valid versions are %s", version, Kind, joinWithAnd(configVersions))
		}
		s = versionSchema(version)
		s.Dialect, s.Title = draft7URI, Kind+", "+version
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(s)
	return b.Bytes(), err
}

func combinedSchema() *jsonSchema {
	s := &jsonSchema{
		Dialect: draft7URI, Title: Kind, Type: "object", Required: []string{"apiVersion", "kind", "providers"},
		// The properties are repeated here, so that an editor can complete a file that has no
		// apiVersion yet.
		Properties: map[string]*jsonSchema{
			"apiVersion": {Type: "string", Enum: configVersions},
			"kind":       {Type: "string", Const: Kind, Description: fieldDocs()["kind"].text},
			"providers":  {Type: "array", Description: fieldDocs()["providers"].text},
		},
		Definitions: map[string]*jsonSchema{},
	}
	for _, version := range configVersions {
		name := version[strings.LastIndexByte(version, '/')+1:]
		s.Definitions[name] = versionSchema(version)
		s.AllOf = append(s.AllOf, schemaIf("apiVersion", version, &jsonSchema{Ref: "#/definitions/" + name}))
	}
	return s
}

const draft7URI = "http://json-schema.org/draft-07/schema#"

// schemaIf returns a schema that requires the schema then if a field has the given value.
func schemaIf(field string, value any, then *jsonSchema) *jsonSchema {
	return &jsonSchema{If: &jsonSchema{Properties: map[string]*jsonSchema{field: {Const: value}}, Required: []string{field}}, Then: then}
}

// versionSchema returns the schema of files of a version. It combines fieldDocs with the Go
// type that the files are decoded into.
func versionSchema(version string) *jsonSchema {
	format := typeMeta{APIVersion: version, Kind: Kind}.fileFormat()
	s := newShape(reflect.TypeOf(format)).toSchema("")
	s.Properties["apiVersion"].Const = version
	s.Properties["apiVersion"].Description = "Version of this file. Each provider has its own apiVersion."
	s.Properties["kind"].Const = Kind
	return s
}

func (s *shape) toSchema(path string) *jsonSchema {
	out := &jsonSchema{Type: "string"}
	switch {
	case s.elem != nil:
		out.Type, out.Items = "array", s.elem.toSchema(path+"[]")
	case s.fields != nil:
		out.Type, out.Properties, out.Others = "object", map[string]*jsonSchema{}, new(false)
		for _, name := range s.fieldNames() {
			out.Properties[name] = s.fields[name].toSchema(strings.TrimPrefix(path+"."+name, "."))
		}
	case s.noun == nounBoolean:
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

// fieldDoc is the documentation of a field, with constraints that its Go type does not express.
type fieldDoc struct {
	text      string
	constrain func(*jsonSchema)
}

const (
	durationUnitPattern = `([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)`
	zeroDurationPattern = `(0+(\.0*)?|\.0+)(ns|us|µs|μs|ms|s|m|h)`

	labelPattern         = `[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?`
	qualifiedNamePattern = `^(` + labelPattern + `(\.` + labelPattern + `)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
)

// fieldDocs returns the documentation of the fields by path. Sources: the types and
// validation of pkg/kubelet/apis/config and pkg/credentialprovider/plugin (1.37).
func fieldDocs() map[string]fieldDoc {
	needs := func(fields ...string) func(*jsonSchema) { return func(s *jsonSchema) { s.Required = fields } }
	keys := func(s *jsonSchema) { s.UniqueItems = true }
	key := func(s *jsonSchema) { s.Pattern = qualifiedNamePattern }
	return map[string]fieldDoc{
		"":          {"", needs("apiVersion", "kind", "providers")},
		"kind":      {"Kind of this file.", nil},
		"providers": {"Plugins. The kubelet calls every plugin whose patterns match an image, and tries credentials from earlier plugins first.", func(s *jsonSchema) { s.MinItems = 1 }},
		"providers[]": {"A plugin and the images that the kubelet calls it for.", func(s *jsonSchema) {
			s.Required = []string{"name", "matchImages", "defaultCacheDuration", "apiVersion"}
			if s.Properties["tokenAttributes"] != nil {
				s.If = &jsonSchema{Required: []string{"tokenAttributes"}}
				s.Then = &jsonSchema{Properties: map[string]*jsonSchema{"apiVersion": {Const: plugin.V1}}}
			}
		}},
		"providers[].name": {"File name of the executable in the kubelet's --image-credential-provider-bin-dir. Must be unique.",
			func(s *jsonSchema) { s.Pattern = `^(\.{0,2}[^/\\ .][^/\\ ]*|\.{3}[^/\\ ]*)$` }},
		"providers[].matchImages": {"Image patterns: HOST[:PORT][/PATH]. In the host, * matches any part of one label. The pattern and the image must have the same number of host labels. The path is matched as a prefix. The port cannot contain a wildcard.",
			func(s *jsonSchema) { s.MinItems = 1 }},
		"providers[].matchImages[]": {"For example *.dkr.ecr.*.amazonaws.com or registry.example/team, without a scheme.", nil},
		"providers[].defaultCacheDuration": {`Cache duration for responses that do not specify a cache duration, for example "12h" or "10m". "0s" disables caching.`,
			func(s *jsonSchema) {
				s.Pattern = `^(0|\+?(` + durationUnitPattern + `)+|[+-](0|(` + zeroDurationPattern + `)+))$`
			}},
		"providers[].apiVersion": {"Version of the plugin protocol.",
			func(s *jsonSchema) { s.Enum = []string{plugin.V1, plugin.V1Beta1, plugin.V1Alpha1} }},
		"providers[].args":            {"Arguments of the plugin. Values are literal: no shell is used, and variables are not expanded.", nil},
		"providers[].env":             {"Environment variables to add to the kubelet's environment. Values are literal. If a name is repeated, the last variable wins.", nil},
		"providers[].env[]":           {"An environment variable.", nil},
		"providers[].env[].name":      {"Name of the variable.", nil},
		"providers[].env[].value":     {"Value of the variable. It is literal.", nil},
		"providers[].tokenAttributes": {"Passes the pod's service account token to the plugin (kubelet 1.34, or 1.33 with a feature gate).", constrainTokenAttributes},
		"providers[].tokenAttributes.serviceAccountTokenAudience": {"Audience of the tokens. The kubelet needs permission to request tokens for this audience: see regcred rbac.", func(s *jsonSchema) { s.MinLength = 1 }},
		"providers[].tokenAttributes.cacheType": {"What to cache responses by: Token if the plugin returns the token itself or a credential that expires no later than the token; otherwise ServiceAccount.",
			func(s *jsonSchema) { s.Enum = []string{string(CachePerServiceAccount), string(CachePerToken)} }},
		"providers[].tokenAttributes.requireServiceAccount":                  {"Set to true to call the plugin only for pods with a service account.", nil},
		"providers[].tokenAttributes.requiredServiceAccountAnnotationKeys":   {"Annotations that the service account must have. The kubelet passes the annotations to the plugin, and skips the plugin if an annotation is missing.", keys},
		"providers[].tokenAttributes.requiredServiceAccountAnnotationKeys[]": {"Key of an annotation.", key},
		"providers[].tokenAttributes.optionalServiceAccountAnnotationKeys":   {"Annotations to pass to the plugin if the service account has them.", keys},
		"providers[].tokenAttributes.optionalServiceAccountAnnotationKeys[]": {"Key of an annotation.", key},
	}
}

func constrainTokenAttributes(s *jsonSchema) {
	s.Required = []string{"serviceAccountTokenAudience", "cacheType", "requireServiceAccount"}
	without := &jsonSchema{Properties: map[string]*jsonSchema{"requiredServiceAccountAnnotationKeys": {MaxItems: new(0)}}}
	s.AllOf = []*jsonSchema{schemaIf("requireServiceAccount", false, without)}
}
