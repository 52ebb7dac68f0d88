// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"fmt"
	"maps"
	"slices"
)

// parseTemplates parses the values of a map; nil stays nil. Errors are reported in
// order of the names.
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

// parseJSON replaces each string in a document with a template.
func parseJSON(field string, value any, in templateContext) (any, error) {
	switch v := value.(type) {
	case nil, bool, int, int64, uint64, float64:
		return v, nil
	case string:
		t, err := parseTemplate(v, in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		return t, nil
	case map[string]any:
		parsed := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			member, err := parseJSON(field+"."+name, v[name], in)
			if err != nil {
				return nil, err
			}
			parsed[name] = member
		}
		return parsed, nil
	case []any:
		parsed := make([]any, len(v))
		for i, item := range v {
			element, err := parseJSON(fmt.Sprintf("%s[%d]", field, i), item, in)
			if err != nil {
				return nil, err
			}
			parsed[i] = element
		}
		return parsed, nil
	}
	return nil, fmt.Errorf("%s: not a JSON value; put the value in quotes", field)
}

func collectTemplates(value any) (ts []template) {
	switch v := value.(type) {
	case template:
		ts = append(ts, v)
	case map[string]any:
		for _, member := range v {
			ts = append(ts, collectTemplates(member)...)
		}
	case []any:
		for _, element := range v {
			ts = append(ts, collectTemplates(element)...)
		}
	}
	return ts
}

// expandJSON expands the templates in a document.
func expandJSON(value any, v placeholderValues) (any, error) {
	switch node := value.(type) {
	case template:
		return node.expand(v, noEscape)
	case map[string]any:
		filled := make(map[string]any, len(node))
		for name, member := range node {
			var err error
			if filled[name], err = expandJSON(member, v); err != nil {
				return nil, err
			}
		}
		return filled, nil
	case []any:
		filled := make([]any, len(node))
		for i, element := range node {
			var err error
			if filled[i], err = expandJSON(element, v); err != nil {
				return nil, err
			}
		}
		return filled, nil
	}
	return value, nil
}
