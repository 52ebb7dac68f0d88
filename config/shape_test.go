// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shapeLines describes a shape, with one line for each field and each field of a field.
func shapeLines(s *shape, at string) (lines []string) {
	line := at + ": " + s.noun
	if s.secret {
		line += ", not shown"
	}
	lines = append(lines, line)
	for _, name := range slices.Sorted(maps.Keys(s.fields)) {
		lines = append(lines, shapeLines(s.fields[name], at+"."+name)...)
	}
	if s.values != nil {
		lines = append(lines, shapeLines(s.values, at+".*")...)
	}
	if s.elem != nil {
		lines = append(lines, shapeLines(s.elem, at+"[]")...)
	}
	return lines
}

// TestErrorsByFieldType verifies that the field names and types in errors are those of the Go
// types that files are decoded into.
func TestErrorsByFieldType(t *testing.T) {
	const top = ": a mapping\n.apiVersion: a string\n.kind: a string\n.providers: a list\n.providers[]: a mapping\n"
	const today = top + `.providers[].apiVersion: a string
.providers[].args: a list, not shown
.providers[].args[]: a string, not shown
.providers[].defaultCacheDuration: a duration in quotes, such as "12h", "10m" or "0s"
.providers[].env: a list, not shown
.providers[].env[]: a mapping with name and value, not shown
.providers[].env[].name: a string, not shown
.providers[].env[].value: a string, not shown
.providers[].matchImages: a list
.providers[].matchImages[]: a string
.providers[].name: a string
`
	const tokens = `.providers[].tokenAttributes: a mapping
.providers[].tokenAttributes.cacheType: a string
.providers[].tokenAttributes.optionalServiceAccountAnnotationKeys: a list
.providers[].tokenAttributes.optionalServiceAccountAnnotationKeys[]: a string
.providers[].tokenAttributes.requireServiceAccount: a boolean
.providers[].tokenAttributes.requiredServiceAccountAnnotationKeys: a list
.providers[].tokenAttributes.requiredServiceAccountAnnotationKeys[]: a string
.providers[].tokenAttributes.serviceAccountTokenAudience: a string
`
	const predecessor = top + `.providers[].apiVersion: a string
.providers[].extraArgs: a list of items with name and value, or a mapping of names to values, not shown
.providers[].extraArgs.*: a string, not shown
.providers[].extraArgs[]: a mapping with name and value, not shown
.providers[].extraArgs[].name: a string, not shown
.providers[].extraArgs[].value: a string, not shown
.providers[].imageMatchers: a list
.providers[].imageMatchers[]: a string
.providers[].kind: a string
.providers[].name: a string
`
	for meta, want := range map[typeMeta]string{
		{V1, Kind}:                               today + tokens,
		{V1Beta1, Kind}:                          today,
		{V1Alpha1, Kind}:                         today,
		{versionOutOfTree, kindOutOfTree}:        predecessor,
		{versionOutOfTree, kindOutOfTreeExample}: predecessor,
		{"unknown", ""}:                          today + tokens,
	} {
		s := newShape(reflect.TypeOf(meta.fileFormat()))
		got := strings.Join(shapeLines(s, ""), "\n") + "\n"
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v (-want +got)\n%s", meta, diff)
		}
	}
}

// TestShapesAgreeWithDecoder verifies that the decoder accepts each field of a shape, even with
// the value null.
func TestShapesAgreeWithDecoder(t *testing.T) {
	for _, meta := range []typeMeta{{V1, Kind}, {V1Beta1, Kind}, {V1Alpha1, Kind}, {versionOutOfTree, kindOutOfTree}} {
		provider := newShape(reflect.TypeOf(meta.fileFormat())).fields["providers"].elem
		for field, s := range provider.fields {
			values := []string{"null"}
			for sub := range s.fields {
				values = append(values, "{"+sub+": null}")
			}
			for _, value := range values {
				content := "apiVersion: " + meta.APIVersion + "\nkind: " + meta.Kind + "\nproviders:\n- {" + field + ": " + value + "}\n"
				if _, err := Parse("f", []byte(content)); err != nil {
					t.Errorf("%v: the decoder does not know %s, or not as %s: %v", meta, field, value, err)
				}
			}
		}
	}
}
