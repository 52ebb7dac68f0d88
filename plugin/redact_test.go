// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/scrub"
)

func TestAnswerSecrets(t *testing.T) {
	for _, tt := range []struct {
		name, stdout string
		want         []string
	}{
		{"empty", "", nil},
		{"text", "open sesame", nil},
		{"answer", `{"kind":"K","apiVersion":"V","cacheKeyType":"Image","cacheDuration":"1h","auth":{"k":{"username":"u","password":"p"},"l":{"password":"q","username":"v"}}}`, []string{"p", "q"}},
		{"another case", `{"Kind":"K","auth":{"k":{"Password":"p","USERNAME":"u"}}}`, []string{"p"}},
		{"other fields", `{"auth":[{"token":"t"},["x",{"y":["z"],"username":"u"}]],"after":"a"}`, []string{"t", "x", "z", "a"}},
		{"half", `{"auth":{"k":{"password":"p","username":"u`, []string{"p"}},
		{"number before", `{"a":1,"password":"p"}`, []string{"p"}},
		{"huge number before", `{"a":1e1000,"password":"p"}`, []string{"p"}},
		{"predecessor's answer", `{"kind":"K","expirationTimestamp":"2026-05-01T12:10:00Z","username":"u","password":"p"}`, []string{"p"}},
		{"two", `{"password":"p"}{"password":"q"}`, []string{"p", "q"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, _ := answerSecrets([]byte(tt.stdout)); !cmp.Equal(tt.want, got) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestCommandSecrets(t *testing.T) {
	c := Command{
		Env:  []string{"A=12345678", "B=1234567", "NONE", "C=a=12345678"},
		Args: []string{"get-credentials", "get", "--verbose-flag", "--region=us-west-2", "-v=1"},
	}
	c.Args = append(c.Args, "--allow-host=registry.example", "--config", "team/app")
	got := c.secrets([]string{"t"}, []string{"maybe-secret", "team/app", "short"}, "registry.example/team/app")
	want := []scrub.Secret{{Text: "t"}, {Text: "maybe-secret"}, {Text: "12345678", Name: "env[0]"}, {Text: "a=12345678", Name: "env[3]"},
		{Text: "get-credentials", Name: "args[0]"}, {Text: "us-west-2", Name: "args[3]"}}
	if !cmp.Equal(want, got) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTooManySecrets(t *testing.T) {
	var h headTail
	h.Write([]byte("hello " + canary.Password))
	got := h.text(unnamed(slices.Repeat([]string{canary.Password}, maxSecrets+1)))
	if want := "(standard error is withheld: there are 1001 secrets to remove)"; got != want {
		t.Errorf("got %d bytes, want %q", len(got), want)
	}
}

func FuzzScrub(f *testing.F) {
	f.Add("before ", "open-sesame", " after", uint16(0))
	f.Add("", "open-sesame", "", uint16(keep-3))
	f.Add("\x1b[", "a\x00\xffb", "\r\n", uint16(7))
	f.Add("", strings.Repeat("ab", keep), "ab", uint16(100))
	f.Add("x", "[redacted", "]", uint16(0))
	f.Fuzz(func(t *testing.T, before, secret, after string, pad uint16) {
		if len(secret) < 4 || len(secret) > 5*keep {
			return
		}
		var h headTail
		h.Write([]byte(strings.Repeat("\n", int(pad)) + before + secret + after))
		got := h.text(unnamed([]string{secret}))
		if !utf8.ValidString(got) {
			t.Error("not UTF-8")
		}
		if len(got) > 10*2*keep+100 {
			t.Errorf("%d bytes", len(got))
		}
		// A secret that looks like the mask, or like what is written for
		// bytes that were left out or changed, may appear by accident.
		if strings.ContainsAny(secret, "[]()\\\ufffd\n") || !utf8.ValidString(secret) || strings.Contains(mask+" bytes left out", secret) {
			return
		}
		if strings.Contains(got, secret) {
			t.Errorf("a secret of %d bytes is left in %d bytes", len(secret), len(got))
		}
	})
}
