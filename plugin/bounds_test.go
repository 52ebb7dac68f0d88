// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"github.com/regcred/regcred/internal/protocol"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPortsAndHosts verifies the largest value that is accepted, and the next value, which is
// rejected.
func TestPortsAndHosts(t *testing.T) {
	for s, want := range map[string]bool{"": false, "1": true, "65535": true, "12345": true, "123456": false, "08090": true, "12a": false} {
		if got := isPort(s); got != want {
			t.Errorf("isPort(%q) = %v, want %v", s, got, want)
		}
	}
	for r := range rune(256) {
		image := "r" + string(r) + "x/app"
		want := strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_", r)
		if got := (&Request{Image: image}).Registry() == "r"+string(r)+"x"; got != want {
			t.Errorf("Registry of %q: %v, want %v", image, got, want)
		}
	}
}

func TestImageKeyOfAddress(t *testing.T) {
	for image, want := range map[string]string{"[::1]": "*", "[::1]/a": "*/a", "::1]": "::1]", "[::1": "[::1", "[::1]:80/a": "[::1]:80/a"} {
		if got := authKeyForImage(image); got != want {
			t.Errorf("imageKey(%q) = %q, want %q", image, got, want)
		}
	}
}

// TestPrintableNames verifies which names in a plugin's output may appear in errors. It
// includes names of exactly the maximum length.
func TestPrintableNames(t *testing.T) {
	host := strings.Repeat("a", 128-3) + ".io"
	for name, want := range map[string]bool{
		strings.Repeat("a", 32): true, strings.Repeat("a", 33): false, "": false, "azAZ": true, "a9": false, "`": false, "{": false, "@": false, "[": false,
		host: true, "a" + host: false, "a.io:80/x": true, "a.io:x/y": false, "*.io:": true,
	} {
		if got := redactKey(name); (got == name) != want {
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
}

// TestRequestBound verifies that a request of exactly the maximum size is accepted, and that a
// request with one more byte is rejected.
func TestRequestBound(t *testing.T) {
	whole := `{"kind":"CredentialProviderRequest","apiVersion":"` + V1 + `","image":"a"}`
	for extra, want := range []string{"", "longer than"} {
		data := whole + strings.Repeat(" ", maxRequestSize-len(whole)+extra)
		_, err := ServeOptions{Stdin: strings.NewReader(data)}.readRequest()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d bytes: %v", len(data), err)
		}
		if want != "" {
			if got := errorFieldsOf(t, err); got != (errorFields{protocol.KindRequest, StageDecode, ""}) {
				t.Errorf("%d bytes: %+v", len(data), got)
			}
		}
	}
	_, err := ServeOptions{Stdin: strings.NewReader(`{"image":"a"}`), Args: []string{"x"}}.readRequest()
	if got := errorFieldsOf(t, err); got != (errorFields{protocol.KindRequest, StageDecode, "kind"}) {
		t.Errorf("the older protocol without its argument: %+v", got)
	}
}

func TestOneLineBound(t *testing.T) {
	for s, want := range map[string]string{"abc": "abc", "abcd": "abc…", "a\n b": "a b", "aéb": "aé…"} {
		if got := truncateToLine(s, 3); got != want {
			t.Errorf("oneLine(%q) = %q, want %q", s, got, want)
		}
	}
}

func TestDefaultsOfCommand(t *testing.T) {
	if p := (Command{}).processCommand(); p.MaxOutput != 1<<20 || p.Timeout != protocol.KubeletTimeout {
		t.Errorf("MaxOutput %d, Timeout %v", p.MaxOutput, p.Timeout)
	}
	if p := (Command{MaxOutput: 1, Timeout: 2, Grace: 3}).processCommand(); p.MaxOutput != 1 || p.Timeout != 2 || p.Grace != 3 {
		t.Errorf("MaxOutput %d, Timeout %v, Grace %v", p.MaxOutput, p.Timeout, p.Grace)
	}
	for in, want := range map[time.Duration]time.Duration{0: protocol.ServeTimeout, 1: 1, -1: protocol.ServeTimeout} {
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

func TestPrintVersionOfUnversioned(t *testing.T) {
	var out strings.Builder
	code := ServeOptions{Name: "x", Stdout: &out}.printVersion()
	if name, version, _ := strings.Cut(strings.TrimSpace(out.String()), " "); code != exitOK || name != "x" || version == "" {
		t.Errorf("exit %d, %q", code, &out)
	}
}
