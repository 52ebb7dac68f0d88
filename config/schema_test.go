// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/must"
)

// TestSchemaOfEachField verifies that the schema describes every field of the Go types, and
// that there is no documentation for other fields.
func TestSchemaOfEachField(t *testing.T) {
	seen := map[string]bool{}
	var walk func(path string, s *jsonSchema)
	walk = func(path string, s *jsonSchema) {
		seen[path] = true
		// The elements of args have no description, because the list has one.
		if s.Description == "" && path != "" && path != "providers[].args[]" {
			t.Errorf("%s has no description", path)
		}
		for name, field := range s.Properties {
			walk(strings.TrimPrefix(path+"."+name, "."), field)
		}
		if s.Items != nil {
			walk(path+"[]", s.Items)
		}
	}
	for _, version := range configVersions {
		s := versionSchema(version)
		walk("", s)
		_, tokens := s.Properties["providers"].Items.Properties["tokenAttributes"]
		if want := version == V1; tokens != want {
			t.Errorf("%s has tokenAttributes: %t, want %t", version, tokens, want)
		}
	}
	for path := range fieldDocs() {
		if !seen[path] {
			t.Errorf("%s is known, and in no schema", path)
		}
	}
	if _, err := Schema("v2"); err == nil {
		t.Error("there is a schema of v2")
	}
}

// TestSchemaOfAll verifies that the schema for all versions contains the schema of each
// version.
func TestSchemaOfAll(t *testing.T) {
	all := combinedSchema()
	if len(all.AllOf) != len(configVersions) || len(all.Definitions) != len(configVersions) {
		t.Fatalf("it has %d conditions and %d definitions", len(all.AllOf), len(all.Definitions))
	}
	for _, field := range all.Required {
		if all.Properties[field] == nil {
			t.Errorf("an editor does not offer %s in a file that has no apiVersion yet", field)
		}
	}
	for i, version := range configVersions {
		alone := versionSchema(version)
		name := strings.TrimPrefix(all.AllOf[i].Then.Ref, "#/definitions/")
		if got := all.AllOf[i].If.Properties["apiVersion"].Const; got != version || !reflect.DeepEqual(all.Definitions[name], alone) {
			t.Errorf("%s: it has another, for %v", version, got)
		}
	}
	first := must.Get(Schema(""))(t)
	if again, _ := Schema(""); !slices.Equal(first, again) {
		t.Error("it is not the same twice")
	}
}
