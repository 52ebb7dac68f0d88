// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package corpus

import (
	"encoding/json"
	"unicode/utf8"
)

// RawString is a string that may be invalid UTF-8. Its JSON is a string if it is valid, and
// {"base64": "…"} otherwise.
type RawString string

// MarshalJSON implements json.Marshaler.
func (t RawString) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(map[string][]byte{"base64": []byte(t)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *RawString) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err == nil {
		*t = RawString(s)
		return nil
	}
	var b struct {
		Base64 []byte `json:"base64"`
	}
	if err := json.Unmarshal(data, &b); err != nil {
		return err
	}
	*t = RawString(b.Base64)
	return nil
}
