// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// jsonPath is the path of a value in a JSON document. Member names and array indexes are separated
// by dots, as in "data.auth.0.token". A backslash escapes a dot or a backslash.
type jsonPath []string

// maxPathLength limits the number of names in a path.
const maxPathLength = 32

func parsePath(text string) (jsonPath, error) {
	var path jsonPath
	var step strings.Builder
	for i := 0; i <= len(text); i++ {
		switch {
		case i == len(text), text[i] == '.':
			if step.Len() == 0 {
				return nil, errors.New("the path contains an empty name; separate names with dots, as in data.token")
			}
			path = append(path, step.String())
			step.Reset()
		case text[i] == '\\':
			if i++; i == len(text) || text[i] != '.' && text[i] != '\\' {
				return nil, errors.New(`a \ must be followed by a dot or by another \`)
			}
			step.WriteByte(text[i])
		default:
			step.WriteByte(text[i])
		}
	}
	if len(path) > maxPathLength {
		return nil, fmt.Errorf("more than %d names", maxPathLength)
	}
	return path, nil
}

// String returns the path in the syntax of parsePath.
func (p jsonPath) String() string {
	escaped := make([]string, len(p))
	for i, step := range p {
		escaped[i] = strings.NewReplacer(`\`, `\\`, `.`, `\.`).Replace(step)
	}
	return strings.Join(escaped, ".")
}

// findValue returns the value at the path. ok is false if the value is missing or null.
func (p jsonPath) findValue(document any) (value any, ok bool) {
	for _, step := range p {
		switch node := document.(type) {
		case map[string]any:
			document = node[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(node) {
				return nil, false
			}
			document = node[i]
		default:
			return nil, false
		}
	}
	return document, document != nil
}

// findString returns the string at the path. Errors do not quote values.
func (p jsonPath) findString(document any) (string, error) {
	value, ok := p.findValue(document)
	if !ok {
		return "", fmt.Errorf("the response has no %q", p.String())
	}
	s, ok := value.(string)
	switch {
	case !ok:
		return "", fmt.Errorf("%q in the response is %s, not a string", p.String(), jsonKind(value))
	case s == "":
		return "", fmt.Errorf("%q in the response is empty", p.String())
	}
	return s, nil
}

// jsonKind returns the type of a JSON value.
func jsonKind(value any) string {
	switch value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "an array"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	}
	return "a number"
}
