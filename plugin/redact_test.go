// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/process"
	"github.com/regcred/regcred/internal/scrub"
)

func TestResponseSecrets(t *testing.T) {
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
			if got, _ := responseSecrets([]byte(tt.stdout)); !cmp.Equal(tt.want, got) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestCommandSecrets(t *testing.T) {
	c := Command{
		Env:  NewSecrets("A=12345678", "B=1234567", "NONE", "C=a=12345678"),
		Args: NewSecrets("get-credentials", "get", "--verbose-flag", "--region=us-west-2", "-v=1"),
	}
	c.Args = append(c.Args, NewSecrets("--allow-host=registry.example", "--config", "team/app")...)
	got := c.secretsToRedact([]string{"t"}, []string{"maybe-secret", "team/app", "short"}, "registry.example/team/app")
	want := []scrub.Secret{{Text: "t"}, {Text: "maybe-secret"}, {Text: "12345678", Name: "env[0]"}, {Text: "a=12345678", Name: "env[3]"},
		{Text: "get-credentials", Name: "args[0]"}, {Text: "us-west-2", Name: "args[3]"}}
	if !cmp.Equal(want, got) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestFileFlags verifies that standard error may contain the name of a file that the user
// configured, and that other values are redacted.
func TestFileFlags(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "password")
	for _, tt := range []struct {
		name      string
		env, args []string
		want      string
	}{
		{"joined", nil, []string{"--password-file=" + path}, path},
		{"separate", nil, []string{"--password-file", path}, path},
		{"one dash", nil, []string{"-password-file=" + path}, path},
		{"another flag", nil, []string{"--password=" + path}, "[redacted: args[0]]"},
		{"another flag, separate", nil, []string{"--password", path}, "[redacted: args[1]]"},
		{"no flag", nil, []string{"password-file", path}, "[redacted: args[1]]"},
		{"value of an earlier flag", nil, []string{"--token-file=" + path + "2", path}, "[redacted: args[1]]"},
		{"after the value", nil, []string{"--token-file", path + "2", path}, "[redacted: args[2]]"},
		{"a switch between", nil, []string{"--token-file", "--verbose", path}, "[redacted: args[2]]"},
		{"also in env", []string{"PASSWORD=" + path}, []string{"--password-file=" + path}, "[redacted: env[0]]"},
		{"also another argument", nil, []string{"--password-file=" + path, path}, "[redacted: args[1]]"},
		{"a directory of it elsewhere", nil, []string{"--password-file=" + path, "--dir=" + dir}, "[redacted: args[1]]" + string(filepath.Separator) + "password"},
	} {
		c := Command{Env: NewSecrets(tt.env...), Args: NewSecrets(tt.args...)}
		text := fmt.Sprintf("read %s: chmod 600 %[1]s", path)
		want := fmt.Sprintf("read %s: chmod 600 %[1]s", tt.want)
		if got := scrub.RedactPart(text, c.secretsToRedact(nil, nil, "r.example/app"), false, false); got != want {
			t.Errorf("%s: got %q, want %q", tt.name, got, want)
		}
	}
	for _, args := range [][]string{
		{"--password-file=" + canary.PasswordSecret},
		{"--password-file", canary.PasswordSecret},
		{"--password-file=https://u:" + canary.PasswordSecret + "@r.example"},
		{"--password-file=" + path, "--password=" + canary.PasswordSecret},
		{"--password-file", path, canary.PasswordSecret},
		{"--password-file=" + path + "?password=" + canary.PasswordSecret},
		{"--password-file", path + "," + canary.PasswordSecret},
		{"--password-file", path + " " + canary.PasswordSecret},
		{"--password-file=//u:" + canary.PasswordSecret + "@r.example"},
	} {
		c := Command{Args: NewSecrets(args...)}
		text := "open " + args[0] + " " + args[len(args)-1]
		if got := scrub.RedactPart(text, c.secretsToRedact(nil, nil, "r.example/app"), false, false); strings.Contains(got, canary.PasswordSecret) {
			t.Errorf("%q: the password is left", args)
		}
	}
	c := Command{Args: NewSecrets("--password-file=" + path)}
	text := "the response for " + path + " has " + canary.PasswordSecret
	want := "the response for " + path + " has [redacted]"
	if got := scrub.RedactPart(text, c.secretsToRedact([]string{canary.PasswordSecret}, nil, "r.example/app"), false, false); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTooManySecrets(t *testing.T) {
	var h process.HeadTail
	h.Write([]byte("hello " + canary.PasswordSecret))
	got := redactStderr(&h, unnamedSecrets(slices.Repeat([]string{canary.PasswordSecret}, maxSecrets+1)))
	if want := "(standard error is hidden because it might contain one of 1001 secrets)"; got != want {
		t.Errorf("got %d bytes, want %q", len(got), want)
	}
}

func FuzzScrub(f *testing.F) {
	f.Add("before ", "open-sesame", " after", uint16(0))
	f.Add("", "open-sesame", "", uint16(process.HeadTailSize-3))
	f.Add("\x1b[", "a\x00\xffb", "\r\n", uint16(7))
	f.Add("", strings.Repeat("ab", process.HeadTailSize), "ab", uint16(100))
	f.Add("x", "[redacted", "]", uint16(0))
	f.Fuzz(func(t *testing.T, before, secret, after string, pad uint16) {
		if len(secret) < 4 || len(secret) > 5*process.HeadTailSize {
			return
		}
		var h process.HeadTail
		h.Write([]byte(strings.Repeat("\n", int(pad)) + before + secret + after))
		got := redactStderr(&h, unnamedSecrets([]string{secret}))
		if !utf8.ValidString(got) {
			t.Error("not UTF-8")
		}
		if len(got) > 10*2*process.HeadTailSize+100 {
			t.Errorf("%d bytes", len(got))
		}
		// A secret that looks like a mask or a placeholder for omitted bytes may be in the
		// result by chance.
		if strings.ContainsAny(secret, "[]()\\\ufffd\n") || !utf8.ValidString(secret) || strings.Contains(secretMask+"bytes omitted)", secret) {
			return
		}
		if strings.Contains(got, secret) {
			t.Errorf("a secret of %d bytes is left in %d bytes", len(secret), len(got))
		}
	})
}

func TestSecretsAcrossTheCut(t *testing.T) {
	// The secret starts at different distances from both ends of the omitted part.
	for shift := range 2 * len(canary.TokenSecret) {
		for _, at := range []int{process.HeadTailSize - shift, 3*process.HeadTailSize - shift} {
			text := []byte(strings.Repeat(".", 4*process.HeadTailSize))
			copy(text[at:], canary.TokenSecret)
			var h process.HeadTail
			h.Write(text)
			got := redactStderr(&h, unnamedSecrets([]string{canary.TokenSecret}))
			for n := 4; n <= len(canary.TokenSecret); n++ {
				if strings.Contains(got, canary.TokenSecret[:n]) || strings.Contains(got, canary.TokenSecret[len(canary.TokenSecret)-n:]) {
					t.Fatalf("%d bytes of the secret at %d are left", n, at)
				}
			}
		}
	}
}

// TestHeadTailSecrets verifies that no part of a secret is shown where standard error was cut,
// that secrets before and after the cut are redacted, and that the number of secrets is
// limited.
func TestHeadTailSecrets(t *testing.T) {
	const secret = "0123456789abcdef"
	cut := process.HeadTail{Head: []byte("begin " + secret[:8]), Tail: []byte(secret[8:] + " end"), Omitted: 1}
	if text := redactStderr(&cut, unnamedSecrets([]string{secret})); strings.Contains(text, secret[:8]) || strings.Contains(text, secret[8:]) ||
		!strings.Contains(text, "begin ") || !strings.Contains(text, " end") {
		t.Errorf("%q", text)
	}
	// Standard error is never cut at its beginning, so there cannot be the end of a secret.
	begin := process.HeadTail{Head: []byte(secret[8:] + " begin"), Tail: []byte("end"), Omitted: 1}
	if text := redactStderr(&begin, unnamedSecrets([]string{secret})); !strings.Contains(text, secret[8:]+" begin") {
		t.Errorf("%q", text)
	}
	for name, h := range map[string]process.HeadTail{
		"head": {Head: []byte(secret), Omitted: 1}, "tail": {Head: []byte("x"), Tail: []byte(secret), Omitted: 1},
		"both": {Head: []byte(secret[:5]), Tail: []byte(secret[5:])},
	} {
		if !containsSecret(&h, []string{secret}) {
			t.Errorf("%s: the secret is not found", name)
		}
	}
	many := make([]string, maxSecrets+1)
	for i := range many {
		many[i] = fmt.Sprintf("secret-%08d", i)
	}
	h := process.HeadTail{Head: []byte("x")}
	if text := redactStderr(&h, unnamedSecrets(many[:maxSecrets])); text != "x" {
		t.Errorf("%d secrets: %q", maxSecrets, text)
	}
	if text := redactStderr(&h, unnamedSecrets(many)); !strings.Contains(text, "hidden") {
		t.Errorf("%d secrets: %q", len(many), text)
	}
}

func TestContainsSecret(t *testing.T) {
	var cut process.HeadTail
	cut.Write([]byte(strings.Repeat(".", process.HeadTailSize-3) + "open-sesame" + strings.Repeat(".", 3*process.HeadTailSize)))
	whole := process.HeadTail{Head: []byte("Authorization: Basic Y2k6b3Blbi1zZXNhbWU= and open-"), Tail: []byte("pass")}
	for _, tt := range []struct {
		name    string
		in      process.HeadTail
		secrets []string
		want    bool
	}{
		{"in base64, behind a user name", whole, []string{"x", "open-sesame"}, true},
		{"across head and tail", whole, []string{"open-pass"}, true},
		{"too short to tell", whole, []string{"and", ""}, false},
		{"none", whole, nil, false},
		{"part of a word", process.HeadTail{Head: []byte("read the password file")}, []string{"pass"}, false},
		{"a word, behind a part of one", process.HeadTail{Head: []byte("password=pass")}, []string{"pass"}, true},
		{"cut in two", cut, []string{"open-sesame"}, false},
	} {
		if got := containsSecret(&tt.in, tt.secrets); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}
