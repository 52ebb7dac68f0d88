// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote_test

import (
	"testing"

	"github.com/regcred/regcred/internal/remote"
)

func TestCheckPathValue(t *testing.T) {
	for _, s := range []string{
		"a", "org+robot", "robot$team", "puller@p.iam.gserviceaccount.com", "system:serviceaccount:a:b", "a.b", "..a", "a..b", "a b", "5%", "100% x", "gr\u00fc\u00df", "\u65e5\u672c", "~a,b=c&d!'()*|", "{x}",
	} {
		if err := remote.CheckPathValue(s); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, s := range []string{
		"", ".", "..", "...", " ", ".. ", " ..", "/", "a/b", "x/../../admin", "../..//evil", "..;/admin", "..;", ";a", `a\b`, `..\`, "a?b", "a#b",
		"%2f", "a%2Fb", "%2e%2e", "%252e%252e%252f", "%25252e", "%%32e", "%u2215", "%c0%af", "a%00", "a\x00", "a\n", "a\tb", "a\x7f",
		"a\u2044b", "a\u2215b", "a\uff0fb", "a\u29f8b", "a\u29f5b", "a\uff3cb", "a\uff1bb", "a\u037eb", "a\uff1fb", "a\uff03b", "\uff05", "\uff0e\uff0e", "\u2024\u2024", "\u2025", "\u2026", "\u3002", "\uff61",
		"\xc0\xae\xc0\xae", "a\xffb", "a\u200bb", "a\u2028b", "a\u202eb", "\U0001F600",
	} {
		if remote.CheckPathValue(s) == nil {
			t.Errorf("%q is accepted", s)
		}
	}
}
