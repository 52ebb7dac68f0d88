// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package report

import "testing"

func TestColumns(t *testing.T) {
	c := newColumnConverter([]byte("ab\r\nä😀é: x\n"))
	for _, tt := range []struct{ line, column, want int }{
		{1, 2, 2},
		{2, 9, 4}, {2, 11, 6}, {2, 11, 6}, {2, 3, 2}, {1, 1, 1},
		{2, 12, 7}, {2, 13, 0}, {3, 1, 1}, {4, 1, 0}, {0, 1, 0}, {2, 0, 0},
	} {
		if got := c.toCharacters(tt.line, tt.column); got != tt.want {
			t.Errorf("line %d, byte %d: column %d, want %d", tt.line, tt.column, got, tt.want)
		}
	}
	for name, text := range map[string]string{"no file": "", "UTF-16": "\xff\xfea\x00"} {
		if got := newColumnConverter([]byte(text)).toCharacters(1, 2); got != 0 {
			t.Errorf("%s: column %d, want none", name, got)
		}
	}
}
