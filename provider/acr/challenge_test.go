// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/must"
)

func TestParseChallenges(t *testing.T) {
	type params = map[string]string
	foo := params{"realm": "https://foo.azurecr.io/oauth2/token", "service": "foo.azurecr.io"}
	for _, test := range []struct {
		name  string
		lines []string
		want  []challenge
	}{
		{"as it is", []string{`Bearer realm="https://foo.azurecr.io/oauth2/token",service="foo.azurecr.io"`}, []challenge{{"bearer", foo}}},
		{"case and blanks", []string{"BEARER  Realm = \"https://foo.azurecr.io/oauth2/token\" ,\tSERVICE=\"foo.azurecr.io\" , "}, []challenge{{"bearer", foo}}},
		{"not quoted", []string{`Bearer realm=https://foo.azurecr.io/oauth2/token,service=foo.azurecr.io`}, []challenge{{"bearer", foo}}},
		{"last not quoted", []string{`Bearer realm="https://foo.azurecr.io/oauth2/token",service=foo.azurecr.io`}, []challenge{{"bearer", foo}}},
		{"two in a line", []string{`Basic realm="x, y", Bearer realm="https://foo.azurecr.io/oauth2/token",service="foo.azurecr.io"`},
			[]challenge{{"basic", params{"realm": "x, y"}}, {"bearer", foo}}},
		{"two lines", []string{`Basic realm=x`, `Bearer realm="https://foo.azurecr.io/oauth2/token",service="foo.azurecr.io"`},
			[]challenge{{"basic", params{"realm": "x"}}, {"bearer", foo}}},
		{"escapes", []string{`Bearer realm="a\"b\\c"`}, []challenge{{"bearer", params{"realm": `a"b\c`}}}},
		{"first of two realms", []string{`Bearer realm="a",realm="b"`}, []challenge{{"bearer", params{"realm": "a"}}}},
		{"scheme alone", []string{`Bearer`}, []challenge{{"bearer", params{}}}},
		{"quote that does not end", []string{`Bearer realm="abc`}, []challenge{{"bearer", params{"realm": "abc"}}}},
		{"escape at the end", []string{`Bearer realm="abc\`}, []challenge{{"bearer", params{"realm": `abc\`}}}},
		{"value missing", []string{`Bearer realm=,service=s`}, []challenge{{"bearer", params{"realm": "", "service": "s"}}}},
		{"parameter first", []string{`realm="x"`}, nil},
		{"nothing", []string{"", ",,", `"`, "=", "ü"}, nil},
		{"none", nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := parseChallenges(test.lines)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(challenge{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func FuzzParseChallenges(f *testing.F) {
	for _, line := range []string{
		`Bearer realm="https://foo.azurecr.io/oauth2/token",service="foo.azurecr.io"`, `Basic realm=x, Bearer a="b\"c"`,
		`Negotiate a/b==`, `Bearer`, `Bearer realm="`, `Bearer realm="\`, "=,=\"", `Bearer realm=https://x/y,service=z`,
	} {
		f.Add(line)
	}
	rules := must.Get(newHostRules(nil))(f)
	reg, _ := rules.findRegistry("foo.azurecr.io")
	f.Fuzz(func(t *testing.T, line string) {
		for _, c := range parseChallenges([]string{line}) {
			if c.scheme == "" || c.scheme != strings.ToLower(c.scheme) {
				t.Errorf("scheme %q", c.scheme)
			}
		}
		// No challenge makes the provider send the token to another registry.
		address, _, err := rules.readChallenge(reg, []string{line})
		if err == nil && address != "https://foo.azurecr.io/oauth2/exchange" && !strings.HasSuffix(address, ".geo.azurecr.io/oauth2/exchange") {
			t.Errorf("the token would go to %q", address)
		}
	})
}
