// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// SchemaVersion is the version of every JSON document that is a result. Fields
// that are added do not change it: a reader passes over what it does not know.
const SchemaVersion = 1

// WriteJSON writes a result as an indented JSON object, with the version of its
// schema in front. Nothing else writes a result in JSON, and a result that is
// no object, and so could not carry the version, is refused.
func (t *Terminal) WriteJSON(v any) error {
	doc, err := JSON(v)
	if err != nil {
		return err
	}
	rest, isObject := bytes.CutPrefix(doc, []byte("{"))
	if !isObject {
		return fmt.Errorf("writing JSON: a %T is no object", v)
	}
	comma := ","
	if rest[0] == '}' {
		comma = "\n"
	}
	return t.WriteRaw(fmt.Appendf(nil, "{\n  \"schemaVersion\": %d%s%s", SchemaVersion, comma, rest))
}

// WriteForeignJSON writes a document whose schema is somebody else's, and has
// a version of its own.
func (t *Terminal) WriteForeignJSON(v any) error {
	doc, err := JSON(v)
	if err != nil {
		return err
	}
	return t.WriteRaw(doc)
}

// JSON makes indented JSON that a terminal shows and does not obey.
func JSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return escapeJSON(b.Bytes()), nil
}
