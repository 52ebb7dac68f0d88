// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package scrub

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

func TestText(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		secrets    []string
		want       string
	}{
		{"nothing to hide", "no such host", nil, "no such host"},
		{"empty secret", "no such host", []string{""}, "no such host"},
		{"once", "token abcd refused", []string{"abcd"}, "token [redacted] refused"},
		{"inside a word", "xabcdx", []string{"abcd"}, "x[redacted]x"},
		{"twice", "abcd abcd", []string{"abcd"}, "[redacted] [redacted]"},
		{"side by side", "abcdabcd", []string{"abcd"}, "[redacted]"},
		{"overlapping", "abcdefgh", []string{"abcde", "defgh"}, "[redacted]"},
		{"overlapping itself", "abababab.", []string{"ababab"}, "[redacted]."},
		{"one in another", "abcdefgh", []string{"cdef", "abcdefgh"}, "[redacted]"},
		{"short as a word", "login ci:abc refused", []string{"abc"}, "login ci:[redacted] refused"},
		{"short as a part of words", "a cab, an abacus", []string{"a"}, "[redacted] cab, an abacus"},
		{"end cut off", "Bearer abcdefghij", []string{"abcdefghijklmnop"}, "Bearer [redacted]"},
		{"less than eight bytes at the end", "Bearer abcdefg", []string{"abcdefghijklmnop"}, "Bearer abcdefg"},
		{"line end in the secret", "password abcdef refused", []string{"abcdef\n"}, "password [redacted] refused"},
		{"after it was made harmless", "pass\xffword!", []string{"pass\ufffdword"}, "[redacted]!"},
		{"control characters in the secret", "x a\x1bbcd y", []string{"a\x1bbcd"}, "x [redacted] y"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Redact(tt.text, tt.secrets); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestForms(t *testing.T) {
	secret := canary.PasswordSecret + "/+<\"\\ é\tü=" // contains characters that the forms encode
	marshalled := must.Get(json.Marshal(secret))(t)
	forms := map[string]string{
		"raw":            secret,
		"JSON":           string(marshalled),
		"quoted":         fmt.Sprintf("%q", secret),
		"query":          url.QueryEscape(secret),
		"path":           url.PathEscape(secret),
		"hex":            hex.EncodeToString([]byte(secret)),
		"upper-case hex": fmt.Sprintf("%X", secret),
	}
	for _, user := range []string{"", "u:", "us:", "use:", "user:"} {
		for name, encoding := range map[string]*base64.Encoding{
			"std": base64.StdEncoding, "url": base64.URLEncoding, "raw std": base64.RawStdEncoding, "raw url": base64.RawURLEncoding,
		} {
			forms["base64 "+name+" "+user] = encoding.EncodeToString([]byte(user + secret))
		}
	}
	for name, form := range forms {
		got := Redact("error: "+form+" refused", []string{secret})
		canary.AssertAbsent(t, name, got)
		if !strings.HasPrefix(got, "error: ") || !strings.HasSuffix(got, " refused") {
			t.Errorf("%s: too much is masked", name)
		}
		if len(got) > len("error: [redacted] refused")+20 {
			t.Errorf("%s: %d bytes are left", name, len(got))
		}
	}
}

// TestEveryFormIsNeeded verifies each form with a secret that only this form matches completely.
func TestEveryFormIsNeeded(t *testing.T) {
	const (
		plain  = canary.PasswordSecret
		signs  = canary.PasswordSecret + "~~~???~~~???" + canary.PasswordSecret // + and / in standard base64, - and _ in URL base64
		spaced = canary.PasswordSecret + " $&+=:@/" + canary.PasswordSecret
	)
	var unescaped strings.Builder
	enc := json.NewEncoder(&unescaped)
	enc.SetEscapeHTML(false)
	must.Do(t, enc.Encode(plain+"<\x01"+plain))
	for name, tt := range map[string]struct{ secret, form string }{
		"as it is":             {plain, plain},
		"quoted":               {plain + "\x01" + plain, fmt.Sprintf("%q", plain+"\x01"+plain)},
		"JSON":                 {plain + "<\x01" + plain, `"` + plain + `\u003c\u0001` + plain + `"`},
		"JSON, not for HTML":   {plain + "<\x01" + plain, strings.TrimSpace(unescaped.String())},
		"in a query":           {spaced, url.QueryEscape(spaced)},
		"in a path":            {spaced, url.PathEscape(spaced)},
		"as JavaScript writes": {spaced, strings.ReplaceAll(url.QueryEscape(spaced), "+", "%20")},
		"JSON with \\/":        {plain + "/" + plain, `"` + plain + `\/` + plain + `"`},
		"JSON in ASCII":        {plain + "é😀" + plain, `"` + plain + `\u00e9\ud83d\ude00` + plain + `"`},
		"lower-case escapes":   {plain + " /=" + plain, plain + "%20%2f%3d" + plain},
		"lower-case query":     {plain + " /=" + plain, plain + "+%2f%3d" + plain},
		"slashes not escaped":  {plain + " /=" + plain, plain + "%20/%3D" + plain},
		"lower case, slashes":  {plain + " /=" + plain, plain + "%20/%3d" + plain},
		"lower-case path":      {plain + " /=" + plain, plain + "%20%2f=" + plain},
		"encodeURIComponent":   {plain + "!'()*/" + plain, plain + "!'()*%2F" + plain},
		"HTML":                 {plain + `<>&"'` + plain, plain + "&lt;&gt;&amp;&#34;&#39;" + plain},
		"HTML with names":      {plain + `<>&"'` + plain, plain + "&lt;&gt;&amp;&quot;&#x27;" + plain},
		"HTML, quoted":         {plain + `\&` + plain, plain + `\\&amp;` + plain},
		"slashes, quoted":      {plain + `"/` + plain, plain + `\"\\/` + plain},
		"quoted twice":         {plain + `\"` + plain, plain + `\\\\\"` + plain},
		"hex":                  {plain, hex.EncodeToString([]byte(plain))},
		"upper-case hex":       {plain, strings.ToUpper(hex.EncodeToString([]byte(plain)))},
		"base64":               {signs, base64.RawStdEncoding.EncodeToString([]byte(signs))},
		"base64 for URLs":      {signs, base64.RawURLEncoding.EncodeToString([]byte(signs))},
	} {
		want := "a " + Mask + " z"
		if strings.HasPrefix(tt.form, `"`) {
			want = `a "` + Mask + `" z`
		}
		if got := Redact("a "+tt.form+" z", []string{tt.secret}); got != want {
			t.Errorf("%s: %d bytes are left, want %q", name, len(got), want)
		}
	}
	for _, user := range []string{"", "u:", "us:", "use:"} {
		for name, encoding := range map[string]*base64.Encoding{"base64": base64.StdEncoding, "base64 for URLs": base64.URLEncoding} {
			// Redact keeps the base64 digits that also depend on the user name or on the last byte.
			form := encoding.EncodeToString([]byte(user + signs + "."))
			got := Redact("a "+form+" z", []string{signs})
			head, tail, _ := strings.Cut(got, Mask)
			if len(head) > len("a ")+(len(user)*8+5)/6 || len(tail) > len("ab== z") || !strings.Contains(got, Mask) {
				t.Errorf("%s behind %q: %d and %d bytes are left around the secret", name, user, len(head), len(tail))
			}
		}
	}
}

// TestMaskIsNoText verifies that a secret that occurs in the mask, such as "redacted", is not
// replaced within a mask.
func TestMaskIsNoText(t *testing.T) {
	for _, secret := range []string{"e", "redact", "redacted", "[redacted]", "[", "red"} {
		got := Redact("pass: "+canary.PasswordSecret+" "+canary.PasswordSecret, []string{canary.PasswordSecret, secret})
		if want := "pass: " + Mask + " " + Mask; got != want {
			t.Errorf("with %q beside it: got %q, want %q", secret, got, want)
		}
	}
}

// TestNames verifies that the mask contains the name of the secret, if the secret has a name.
func TestNames(t *testing.T) {
	args := []Secret{{"/etc/registry", "args[0]"}, {"/etc/registry/login.json", "args[1]"}, {"/etc/registry/login.json", "args[2]"}, {Text: canary.PasswordSecret}}
	for _, tt := range []struct{ name, text, want string }{
		{"short one", "open /etc/registry: denied", "open [redacted: args[0]]: denied"},
		{"long one", "open /etc/registry/login.json: denied", "open [redacted: args[1]]: denied"},
		{"behind the short one", "/etc/registry/x", "[redacted: args[0]]/x"},
		{"quoted", `open "/etc/registry/login.json"`, `open "[redacted: args[1]]"`},
		{"in a URL", "POST ?f=%2Fetc%2Fregistry", "POST ?f=[redacted: args[0]]"},
		{"beside one without", canary.PasswordSecret + " /etc/registry", "[redacted] [redacted: args[0]]"},
		{"side by side", "/etc/registry/etc/registry/login.json", "[redacted]"},
		{"side by side with one without", canary.PasswordSecret + "/etc/registry", "[redacted]"},
		{"twice", "/etc/registry /etc/registry/login.json", "[redacted: args[0]] [redacted: args[1]]"},
	} {
		if got := RedactPart(tt.text, args, false, false); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	same := []Secret{{Text: "/etc/registry"}, {"/etc/registry", "args[0]"}}
	if got, want := RedactPart("/etc/registry", same, false, false), "[redacted: args[0]]"; got != want {
		t.Errorf("with and without a name: got %q, want %q", got, want)
	}
	if got, want := RedactPart("xx /etc/regi", args, false, true), "xx [redacted: args[1]]"; got != want {
		t.Errorf("cut off: got %q, want %q", got, want)
	}
}
