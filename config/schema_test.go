// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestSchemaOfEachField: whatever the types have, the schema has, and says what
// it is; and it knows of nothing else.
func TestSchemaOfEachField(t *testing.T) {
	seen := map[string]bool{}
	var walk func(path string, s *Schema)
	walk = func(path string, s *Schema) {
		seen[path] = true
		// A list of plain texts is explained as a whole.
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
	for _, version := range Versions() {
		s, err := SchemaOf(version)
		if err != nil {
			t.Fatal(err)
		}
		walk("", s)
		_, tokens := s.Properties["providers"].Items.Properties["tokenAttributes"]
		if want := version == V1; tokens != want {
			t.Errorf("%s has tokenAttributes: %t, want %t", version, tokens, want)
		}
	}
	for path := range known() {
		if !seen[path] {
			t.Errorf("%s is known, and in no schema", path)
		}
	}
	if _, err := SchemaOf("v2"); err == nil {
		t.Error("there is a schema of v2")
	}
}

// TestSchemaOfAll: the one for all versions has each as it is alone.
func TestSchemaOfAll(t *testing.T) {
	all := SchemaOfAll()
	if len(all.AllOf) != len(Versions()) || len(all.Definitions) != len(Versions()) {
		t.Fatalf("it has %d conditions and %d definitions", len(all.AllOf), len(all.Definitions))
	}
	for _, field := range all.Required {
		if all.Properties[field] == nil {
			t.Errorf("an editor does not offer %s in a file that has no apiVersion yet", field)
		}
	}
	for i, version := range Versions() {
		alone, err := SchemaOf(version)
		if err != nil {
			t.Fatal(err)
		}
		alone.Dialect, alone.Title = "", ""
		name := strings.TrimPrefix(all.AllOf[i].Then.Ref, "#/definitions/")
		if got := all.AllOf[i].If.Properties["apiVersion"].Const; got != version || !reflect.DeepEqual(all.Definitions[name], alone) {
			t.Errorf("%s: it has another, for %v", version, got)
		}
	}
	first, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := json.Marshal(SchemaOfAll()); !slices.Equal(first, again) {
		t.Error("it is not the same twice")
	}
}
