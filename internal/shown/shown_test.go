// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package shown_test

import (
	"testing"

	. "github.com/regcred/regcred/internal/shown"
)

func TestShown(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{ShellPath("-a b"), "'./-a b'"}, {ShellPath("a-b"), "a-b"}, {ShellPath("--"), "./--"},
		{ShellWord("a/b:c"), "a/b:c"}, {ShellWord(""), "''"}, {ShellWord("o'hara; rm"), `'o'\''hara; rm'`},
		{ShellWord(`a"b\c`), `'a"b\c'`}, {ShellWord("a\nb'\\\u202e"), `$'a\012b\'\\\342\200\256'`},
		{Line("a\tb\nc\x1b[2J\u202e\xff"), `a\tb\nc\x1b[2J\u202e\ufffd`}, {Line("gr\u00fc\u00df"), "gr\u00fc\u00df"},
		{Lines("a\tb\nc\r\u2028"), "a\tb\nc" + `\r\u2028`},
	} {
		if tt.got != tt.want {
			t.Errorf("got %s, want %s", tt.got, tt.want)
		}
	}
}
