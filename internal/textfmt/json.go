// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package textfmt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// SchemaVersion is the version of the JSON results. Adding fields does not change it.
const SchemaVersion = 1

// EncodeResult encodes a result as an indented JSON object that begins with
// schemaVersion. It returns an error if v is not an object.
func EncodeResult(v any) ([]byte, error) {
	doc, err := EncodeJSON(v)
	if err != nil {
		return nil, err
	}
	rest, isObject := bytes.CutPrefix(doc, []byte("{"))
	if !isObject {
		return nil, fmt.Errorf("writing JSON: a %T is not an object", v)
	}
	comma := ","
	if rest[0] == '}' {
		comma = "\n"
	}
	return fmt.Appendf(nil, "{\n  \"schemaVersion\": %d%s%s", SchemaVersion, comma, rest), nil
}

// EncodeJSON encodes v as indented JSON without control characters.
func EncodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return escapeJSON(b.Bytes()), nil
}

// escapeJSON escapes characters that JSON allows but terminals interpret: DEL, C1
// controls, text direction and line separators. They occur only in strings, and
// escaping does not change the strings' values.
func escapeJSON(document []byte) []byte {
	var b []byte
	for rest := document; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r < 0x7f || unicode.IsPrint(r):
			b = append(b, rest[:n]...)
		case r > 0xffff:
			r -= 0x10000
			b = fmt.Appendf(b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
		rest = rest[n:]
	}
	return b
}
