// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package entries

import (
	"bytes"
	"slices"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/textedit"
)

// hidden replaces text that must not be shown.
const hidden = "…"

// Masked returns a configuration for a diff of what [Set] changes. It has as many lines,
// but entries with args or env, which may be secrets, are reduced to their indentation. So
// is a whole file that cannot be read. It returns nil for nil.
func Masked(data []byte) []byte {
	if data == nil {
		return nil
	}
	c, err := config.Parse("", data)
	if err != nil {
		return mask(data)
	}
	list := find(c)
	if list == nil {
		return mask(data)
	}
	for i, p := range slices.Backward(c.Providers) {
		if len(p.Args) > 0 || len(p.Env) > 0 {
			at := list.Item(i)
			data = textedit.Apply(data, textedit.Edit{Span: at, New: string(mask(data[at.From:at.To]))})
		}
	}
	return data
}

// mask hides each line except its indentation and end.
func mask(text []byte) (shown []byte) {
	for line := range bytes.Lines(text) {
		shown = append(shown, textedit.Indentation(line)...)
		content := bytes.TrimRight(line, "\r\n")
		if len(bytes.TrimLeft(content, " \t")) > 0 {
			shown = append(shown, hidden...)
		}
		shown = append(shown, line[len(content):]...)
	}
	return shown
}
