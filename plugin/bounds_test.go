// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPortsAndHosts: the last of what counts still does, and the next no more.
func TestPortsAndHosts(t *testing.T) {
	for s, want := range map[string]bool{"": false, "1": true, "65535": true, "12345": true, "123456": false, "08090": true, "12a": false} {
		if got := isPort(s); got != want {
			t.Errorf("isPort(%q) = %v, want %v", s, got, want)
		}
	}
	for r := range rune(256) {
		want := !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_", r)
		if got := notInName(r); got != want {
			t.Errorf("notInName(%q) = %v, want %v", r, got, want)
		}
	}
}

func TestImageKeyOfAddress(t *testing.T) {
	for image, want := range map[string]string{"[::1]": "*", "[::1]/a": "*/a", "::1]": "::1]", "[::1": "[::1", "[::1]:80/a": "[::1]:80/a"} {
		if got := imageKey(image); got != want {
			t.Errorf("imageKey(%q) = %q, want %q", image, got, want)
		}
	}
}

// TestShownNames: what may be shown of a plugin's own names, to the byte.
func TestShownNames(t *testing.T) {
	host := strings.Repeat("a", 128-3) + ".io"
	for name, want := range map[string]bool{
		strings.Repeat("a", 32): true, strings.Repeat("a", 33): false, "": false, "azAZ": true, "a9": false, "`": false, "{": false, "@": false, "[": false,
		host: true, "a" + host: false, "a.io:80/x": true, "a.io:x/y": false, "*.io:": true,
	} {
		if got := showKey(name); (got == name) != want {
			t.Errorf("showKey(%q) = %q, want it shown: %v", name, got, want)
		}
	}
}

func TestAuthConfigEqual(t *testing.T) {
	a := AuthConfig{"u", NewSecret("p")}
	for _, tt := range []struct {
		b    AuthConfig
		want bool
	}{
		{AuthConfig{"u", NewSecret("p")}, true}, {AuthConfig{"u", NewSecret("q")}, false},
		{AuthConfig{"v", NewSecret("p")}, false}, {AuthConfig{}, false},
	} {
		if got := a.Equal(tt.b); got != tt.want {
			t.Errorf("Equal(%v) = %v", tt.b.Username, got)
		}
	}
	for _, tt := range []struct {
		a    AuthConfig
		want bool
	}{
		{AuthConfig{}, true}, {AuthConfig{Username: "u"}, false}, {AuthConfig{Password: NewSecret("p")}, false}, {a, false},
	} {
		if got := tt.a.IsZero(); got != tt.want {
			t.Errorf("IsZero() of user %q = %v", tt.a.Username, got)
		}
	}
}

// TestCommandFormats: a Command shows its name under every verb, and no
// encoder takes it.
func TestCommandFormats(t *testing.T) {
	c := Command{Name: "ecr"}
	for verb, want := range map[string]string{
		"%v": "ecr", "%s": "ecr", "%+v": "ecr", "%#v": `plugin.Command("ecr")`, "%#x": "ecr", "%x": "ecr", "%d": "ecr",
	} {
		if got := fmt.Sprintf(verb, c); got != want {
			t.Errorf("%s: got %s, want %s", verb, got, want)
		}
	}
	if _, err := json.Marshal(c); err == nil {
		t.Error("it was marshalled")
	}
	if _, err := c.MarshalJSON(); err == nil {
		t.Error("MarshalJSON made something")
	}
	if _, err := c.MarshalText(); err == nil {
		t.Error("MarshalText made something")
	}
	if _, err := NewSecret("x").MarshalJSON(); err == nil {
		t.Error("MarshalJSON made something of a Secret")
	}
}

// TestHeadTailEveryLength: what is kept, dropped and said of standard error
// around its bounds, in one write or byte by byte.
func TestHeadTailEveryLength(t *testing.T) {
	for _, n := range []int{0, 1, keep - 1, keep, keep + 1, 2*keep - 1, 2 * keep, 2*keep + 1, 3*keep + 7} {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte('a' + i%26)
		}
		var whole, parts headTail
		_, _ = whole.Write(data)
		for rest := data; len(rest) > 0; {
			size := min(1000, len(rest))
			if wrote, err := parts.Write(rest[:size]); wrote != size || err != nil {
				t.Fatalf("Write = %d, %v", wrote, err)
			}
			rest = rest[size:]
		}
		dropped := max(0, n-2*keep)
		want := headTail{head: data[:min(n, keep)], tail: data[min(n, keep)+dropped:], dropped: int64(dropped)}
		for name, got := range map[string]headTail{"one write": whole, "many": parts} {
			if !bytes.Equal(got.head, want.head) || !bytes.Equal(got.tail, want.tail) || got.dropped != want.dropped {
				t.Errorf("%d bytes in %s: %d + %d, %d dropped", n, name, len(got.head), len(got.tail), got.dropped)
			}
		}
		if dropped > 0 && !strings.Contains(whole.text(nil), fmt.Sprintf("(%d bytes omitted)", dropped)) {
			t.Errorf("%d bytes: it does not say what is left out", n)
		}
	}
}

// TestHeadTailSecrets: a secret that the cut went through is not shown in
// part, one in either end is found, and too many are not looked for.
func TestHeadTailSecrets(t *testing.T) {
	const secret = "0123456789abcdef"
	cut := headTail{head: []byte("begin " + secret[:8]), tail: []byte(secret[8:] + " end"), dropped: 1}
	if text := cut.text(unnamed([]string{secret})); strings.Contains(text, secret[:8]) || strings.Contains(text, secret[8:]) ||
		!strings.Contains(text, "begin ") || !strings.Contains(text, " end") {
		t.Errorf("%q", text)
	}
	// What standard error begins with was cut off nothing.
	begin := headTail{head: []byte(secret[8:] + " begin"), tail: []byte("end"), dropped: 1}
	if text := begin.text(unnamed([]string{secret})); !strings.Contains(text, secret[8:]+" begin") {
		t.Errorf("%q", text)
	}
	for name, h := range map[string]headTail{
		"head": {head: []byte(secret), dropped: 1}, "tail": {head: []byte("x"), tail: []byte(secret), dropped: 1},
		"both": {head: []byte(secret[:5]), tail: []byte(secret[5:])},
	} {
		if !h.holds([]string{secret}) {
			t.Errorf("%s: the secret is not found", name)
		}
	}
	many := make([]string, maxSecrets+1)
	for i := range many {
		many[i] = fmt.Sprintf("secret-%08d", i)
	}
	h := headTail{head: []byte("x")}
	if text := h.text(unnamed(many[:maxSecrets])); text != "x" {
		t.Errorf("%d secrets: %q", maxSecrets, text)
	}
	if text := h.text(unnamed(many)); !strings.Contains(text, "hidden") {
		t.Errorf("%d secrets: %q", len(many), text)
	}
}

// TestRequestBound: a request of exactly the bound is read, one byte more is not.
func TestRequestBound(t *testing.T) {
	whole := `{"kind":"CredentialProviderRequest","apiVersion":"` + V1 + `","image":"a"}`
	for extra, want := range []string{"", "longer than"} {
		data := whole + strings.Repeat(" ", maxRequest-len(whole)+extra)
		_, err := ServeOptions{Stdin: strings.NewReader(data)}.readRequest()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d bytes: %v", len(data), err)
		}
		if want != "" {
			if got := verdictOf(t, err); got != (verdict{KindRequest, StageDecode, ""}) {
				t.Errorf("%d bytes: %+v", len(data), got)
			}
		}
	}
	_, err := ServeOptions{Stdin: strings.NewReader(`{"image":"a"}`), Args: []string{"x"}}.readRequest()
	if got := verdictOf(t, err); got != (verdict{KindRequest, StageDecode, "kind"}) {
		t.Errorf("the older protocol without its argument: %+v", got)
	}
}

func TestOneLineBound(t *testing.T) {
	for s, want := range map[string]string{"abc": "abc", "abcd": "abc…", "a\n b": "a b", "aéb": "aé…"} {
		if got := oneLine(s, 3); got != want {
			t.Errorf("oneLine(%q) = %q, want %q", s, got, want)
		}
	}
}

func TestDefaultsOfCommand(t *testing.T) {
	if got := (Command{}).maxOutput(); got != DefaultMaxOutput {
		t.Errorf("maxOutput() = %d", got)
	}
	if got := (Command{MaxOutput: 1}).maxOutput(); got != 1 {
		t.Errorf("maxOutput() = %d, want what was asked for", got)
	}
	for in, want := range map[time.Duration]time.Duration{0: DefaultServeTimeout, 1: 1, -1: DefaultServeTimeout} {
		if got := (ServeOptions{Timeout: in}).withDefaults().Timeout; got != want {
			t.Errorf("Timeout %d became %v", in, got)
		}
	}
	if got, want := (ServeOptions{}).withDefaults().Name, filepath.Base(os.Args[0]); got != want {
		t.Errorf("Name = %q, want %q", got, want)
	}
	if got := (ServeOptions{Name: "x"}).withDefaults().Name; got != "x" {
		t.Errorf("Name = %q", got)
	}
}

func TestPrintVersionOfNone(t *testing.T) {
	var out strings.Builder
	code := ServeOptions{Name: "x", Stdout: &out}.printVersion()
	if name, version, _ := strings.Cut(strings.TrimSpace(out.String()), " "); code != exitOK || name != "x" || version == "" {
		t.Errorf("exit %d, %q", code, &out)
	}
}

func TestNotPermitted(t *testing.T) {
	for mode, chmod := range map[fs.FileMode]bool{0o644: true, 0o100: false, 0o010: false, 0o001: false, 0: true} {
		if got := notPermitted("", mode); strings.Contains(got, "chmod +x") != chmod {
			t.Errorf("mode %v: %s", mode, got)
		}
	}
}
