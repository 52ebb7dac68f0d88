// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/diagnose"
)

// validateDecodableParts adds validation errors for the parts of a document that can be decoded, so
// that all errors are reported at once. It checks only the rules that are the same in every
// kubelet.
func (d *diagnosis) validateDecodableParts(value any, want *shape) {
	known, ok := decodableParts(value, want).(map[string]any)
	if !ok || d.errors.isFull() {
		return
	}
	known["kind"], known["apiVersion"] = Kind, V1
	doc, err := json.Marshal(known)
	if err != nil {
		return
	}
	read, err := wireConfig[v1Provider]{}.decode(doc)
	if err != nil {
		return
	}
	c := &Config{Providers: read.providers, path: d.src.name}
	c.files = []*File{{Name: d.src.name, Kind: Kind, APIVersion: V1, Count: len(read.providers), source: d.src}}
	// The kubelet's version is unknown here, so use the rules of the more lenient kubelet.
	v := &validator{c: c, kubelet: kubelet{minor: sinceStrictColons - 1}}
	if _, written := known["providers"]; !written {
		v.errors.add(d.src.valuePosition(fieldPath{"providers"}).newFieldError("", noProvidersMessage))
	}
	for i := range c.Providers {
		if v.errors.isFull() {
			break
		}
		v.checkBasics(i, &c.Providers[i])
	}
	reported := slices.Clone(d.errors.errs)
	for _, err := range v.errors.errs {
		if !slices.ContainsFunc(reported, func(e *FieldError) bool { return isWithin(err.Path, e.Path) }) {
			d.errors.add(err)
		}
	}
}

// isWithin reports whether path equals other or is below it.
func isWithin(path, other string) bool {
	rest, ok := strings.CutPrefix(path, other)
	return ok && other != "" && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// decodableParts returns the parts of a value that have the required type, or nil if there are
// none. It corrects misspelled field names.
func decodableParts(v any, want *shape) any {
	switch v := v.(type) {
	case map[string]any:
		if want.fields == nil {
			return nil
		}
		fields := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			field := diagnose.ClosestField(name, want.fieldNames())
			if _, has := v[field]; field == "" || has && name != field {
				continue // the correctly spelled field takes precedence
			}
			fields[field] = decodableParts(v[name], want.fields[field])
		}
		return fields
	case []any:
		if want.elem == nil {
			return nil
		}
		items := make([]any, len(v))
		for i := range v {
			items[i] = decodableParts(v[i], want.elem)
		}
		return items
	case string:
		if want.checkText != nil && want.checkText(v) == "" {
			return v
		}
	case bool:
		if want.noun == nounBoolean {
			return v
		}
	}
	return nil
}
