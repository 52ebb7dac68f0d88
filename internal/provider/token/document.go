// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"fmt"
	"maps"
	"slices"
)

// parseTemplates parses the values of a map in order of their names. It returns nil for nil.
func parseTemplates(field string, texts map[string]string, in templateContext) (map[string]template, error) {
	if texts == nil {
		return nil, nil
	}
	parsed := make(map[string]template, len(texts))
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		t, err := parseTemplate(texts[name], in)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", field, name, err)
		}
		parsed[name] = t
	}
	return parsed, nil
}

// mapDocument returns a copy of a JSON document in which leaf has replaced each scalar. It visits
// members in order of their names. field is the name of the document in errors.
func mapDocument(field string, value any, leaf func(field string, value any) (any, error)) (any, error) {
	var err error
	switch v := value.(type) {
	case map[string]any:
		members := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if members[name], err = mapDocument(field+"."+name, v[name], leaf); err != nil {
				return nil, err
			}
		}
		return members, nil
	case []any:
		elements := make([]any, len(v))
		for i, element := range v {
			if elements[i], err = mapDocument(fmt.Sprintf("%s[%d]", field, i), element, leaf); err != nil {
				return nil, err
			}
		}
		return elements, nil
	}
	return leaf(field, value)
}

// parseJSON replaces each string in a document with a template.
func parseJSON(field string, value any, in templateContext) (any, error) {
	return mapDocument(field, value, func(field string, value any) (any, error) {
		switch v := value.(type) {
		case nil, bool, int, int64, uint64, float64:
			return v, nil
		case string:
			t, err := parseTemplate(v, in)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", field, err)
			}
			return t, nil
		}
		return nil, fmt.Errorf("%s: not a JSON value; put the value in quotes", field)
	})
}

func collectTemplates(document any) (ts []template) {
	mapDocument("", document, func(_ string, value any) (any, error) {
		if t, ok := value.(template); ok {
			ts = append(ts, t)
		}
		return nil, nil
	})
	return ts
}

// expandJSON expands the templates in a document.
func expandJSON(document any, v placeholderValues) (any, error) {
	return mapDocument("", document, func(_ string, value any) (any, error) {
		if t, ok := value.(template); ok {
			return t.expandWith(v, noEscape)
		}
		return value, nil
	})
}
