// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package entries

import (
	"bytes"
	"slices"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/textedit"
)

// maskedText replaces text that must not be shown.
const maskedText = "…"

// MaskValues returns a configuration for a diff of what [Set] changes. It has the same
// number of lines, but entries with args or env, which may be secrets, are reduced to
// their indentation. If a file cannot be read, all of its lines are. Masked returns nil
// for nil.
func MaskValues(data []byte) []byte {
	if data == nil {
		return nil
	}
	c, err := config.Parse("", data)
	if err != nil {
		return maskLines(data)
	}
	list := findProviderList(c)
	if list == nil {
		return maskLines(data)
	}
	for i, p := range slices.Backward(c.Providers) {
		if len(p.Args) > 0 || len(p.Env) > 0 {
			at := list.ItemSpan(i)
			data = textedit.Apply(data, textedit.Edit{Span: at, New: string(maskLines(data[at.From:at.To]))})
		}
	}
	return data
}

// maskLines hides each line except its indentation and line ending.
func maskLines(text []byte) (shown []byte) {
	for line := range bytes.Lines(text) {
		shown = append(shown, textedit.Indentation(line)...)
		content := bytes.TrimRight(line, "\r\n")
		if len(bytes.TrimLeft(content, " \t")) > 0 {
			shown = append(shown, maskedText...)
		}
		shown = append(shown, line[len(content):]...)
	}
	return shown
}
