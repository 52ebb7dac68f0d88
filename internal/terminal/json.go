// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package terminal

import "github.com/regcred/regcred/internal/shown"

// WriteJSON writes a result as [shown.Result] encodes it.
func (t *Terminal) WriteJSON(v any) error {
	doc, err := shown.Result(v)
	if err != nil {
		return err
	}
	return t.WriteRaw(doc)
}

// WriteForeignJSON writes a document with a third-party schema, such as SARIF.
func (t *Terminal) WriteForeignJSON(v any) error {
	doc, err := JSON(v)
	if err != nil {
		return err
	}
	return t.WriteRaw(doc)
}

// JSON is [shown.JSON].
func JSON(v any) ([]byte, error) { return shown.JSON(v) }
