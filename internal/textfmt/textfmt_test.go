// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package textfmt_test

import (
	"testing"

	. "github.com/regcred/regcred/internal/textfmt"
)

func TestQuoteAndEscape(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{QuoteShellPath("-a b"), "'./-a b'"}, {QuoteShellPath("a-b"), "a-b"}, {QuoteShellPath("--"), "./--"},
		{QuoteShellWord("a/b:c"), "a/b:c"}, {QuoteShellWord(""), "''"}, {QuoteShellWord("o'hara; rm"), `'o'\''hara; rm'`},
		{QuoteShellWord(`a"b\c`), `'a"b\c'`}, {QuoteShellWord("a\nb'\\\u202e"), `$'a\012b\'\\\342\200\256'`},
		{EscapeLine("a\tb\nc\x1b[2J\u202e\xff"), `a\tb\nc\x1b[2J\u202e\ufffd`}, {EscapeLine("gr\u00fc\u00df"), "gr\u00fc\u00df"},
		{EscapeLines("a\tb\nc\r\u2028"), "a\tb\nc" + `\r\u2028`},
	} {
		if tt.got != tt.want {
			t.Errorf("got %s, want %s", tt.got, tt.want)
		}
	}
}
